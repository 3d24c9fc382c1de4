// The `svc-host` command line: `serve`, and the commands that extensions contribute by their manifests.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { CommanderError, Command as Parser } from 'commander'
import { type ApiClient, ApiError, openApi } from 'svc-host/client'
import about from 'svc-host/package.json' with { type: 'json' }
import type { Command } from 'svc-host/sdk'
import { discoverExtensions, type Found, loadDefault, type Manifest, sourceFile } from './discover.ts'
import { messageOf, UsageError } from './errors.ts'
import { examine } from './examine.ts'
import { DEFAULT_BIND, parseBind } from './listener.ts'
import { jailed } from './realms/jail.ts'
import type { Flags } from './settings.ts'
import { readAccess } from './tokens.ts'

interface Surroundings {
  readonly out: NodeJS.WritableStream
  readonly err: NodeJS.WritableStream
  readonly env: NodeJS.ProcessEnv
  /** Aborted by Ctrl-C and by a request to end. */
  readonly signal: AbortSignal
}

/** Runs one command line and returns its exit code: 0 done, 1 refused, 2 wrong usage, 3 unreachable, 4 wrong pin. */
export async function run(argv: readonly string[], around: Surroundings): Promise<number> {
  const { out, err, env } = around
  let code = 0
  const program = new Parser('svc-host')
  program.configureOutput({ writeOut: text => out.write(text), writeErr: () => {} }).exitOverride()
  program.version(about.version, '-v, --version', 'print the version').enablePositionalOptions()
  const configDir = givenConfigDir(argv, env)
  try {
    const found = await discoverExtensions(configDir, { safe: argv.includes('--safe') })
    const flags: Record<string, string | boolean> = {}
    const serving = program.command('serve').description('Run the host; serve --help lists its flags')
    const declare = (flag: string, value: string, help: string): void => {
      if (serving.options.some(({ long }) => long === `--${flag}`)) return
      serving.option(`--${flag} ${value}`, help)
      serving.on(`option:${flag}`, (given?: string | null) => {
        flags[flag] = given ?? true
      })
    }
    declare('mgmt-bind', '<IP:PORT>', `address of the management API (default ${DEFAULT_BIND})`)
    declare('config-dir', '<folder>', 'config folder (default SVC_CONFIG_DIR, else ~/.config/svc)')
    declare('safe', '', 'start built-in extensions only')
    for (const { manifest } of found)
      for (const { flag, type, help } of Object.values(manifest?.settings ?? {}))
        if (flag) declare(flag, type === 'boolean' ? '' : '<value>', help)
    serving.allowExcessArguments(false).action(() => serve(configDir, flags, around))
    for (const extension of found)
      for (const command of extension.manifest?.commands ?? []) {
        if (program.commands.some(other => other.name() === command.name)) continue
        // The command reads its own arguments, flags and --help included.
        const contributed = program.command(command.name).description(command.title).argument('[args...]')
        contributed.allowUnknownOption().helpOption(false).passThroughOptions()
        contributed.action(async args => {
          code = await runContributed(extension, command, args, around)
        })
      }
    await program.parseAsync(argv, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    const bare = error instanceof CommanderError && error.code === 'commander.help'
    const text = bare ? program.helpInformation() : `svc-host: ${messageOf(error).replace(/^error: /, '')}\n`
    err.write(text)
    return exitCode(error)
  }
}

function exitCode(error: unknown): number {
  if (error instanceof UsageError || error instanceof CommanderError) return 2
  if (!(error instanceof ApiError)) return 1
  return error.code === 'pin-mismatch' ? 4 : error.code === 'unreachable' ? 3 : 1
}

/** Known before the flags are, because extensions in that folder declare some. */
function givenConfigDir(argv: readonly string[], env: NodeJS.ProcessEnv): string {
  const at = argv[0] === 'serve' ? argv.findLastIndex(each => /^--config-dir(=|$)/.test(each)) : -1
  const given = argv[at]?.includes('=') ? argv[at].slice('--config-dir='.length) : argv[at + 1]
  return resolve((at > 0 && given) || env['SVC_CONFIG_DIR'] || join(homedir(), '.config', 'svc'))
}

async function serve(configDir: string, flags: Flags, { env, signal }: Surroundings): Promise<void> {
  if (typeof flags['mgmt-bind'] === 'string') parseBind(flags['mgmt-bind'])
  // Only now: other commands do without the whole host.
  const { startHost } = await import('./index.ts')
  const host = await startHost({ configDir, flags, env, safe: flags['safe'] === true, signal })
  if (!signal.aborted) await new Promise(done => signal.addEventListener('abort', done))
  await host.stop()
}

async function runContributed(
  extension: Found,
  command: Manifest['commands'][number],
  argv: readonly string[],
  { out, err, env, signal }: Surroundings,
): Promise<number> {
  if (extension.problem) throw new Error(`${command.name}: extension ${extension.id} ${extension.problem}`)
  // Code of strangers must not run beside the admin token.
  if (!extension.builtin)
    throw new Error(
      `${command.name} belongs to the installed extension ${extension.id}, whose commands are not run here`,
    )
  const configDir = givenConfigDir([], env)
  const clients: ApiClient[] = []
  const connect = async (): Promise<ApiClient> => {
    const access = await readAccess(configDir)
    if (!access)
      throw new ApiError(
        'unreachable',
        `no host has run with ${configDir} yet; start one with svc-host serve`,
      )
    const client = openApi(access)
    clients.push(client)
    return client
  }
  try {
    const module = await loadDefault<Command>(sourceFile(extension.folder, command.module))
    const { version } = about
    return await module.run({ argv, out, err, configDir, version, signal, connect, examine, jailed })
  } finally {
    for (const client of clients) client.close()
  }
}
