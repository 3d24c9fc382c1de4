// npm as a process of its own: it knows the machine's registries, proxies and credentials, and works beside the host.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Needs as AllNeeds } from './dependencies.ts'

type Needs = Pick<AllNeeds, 'dependencies' | 'optionalDependencies'>

/** Runs npm to its end; `out` and `err` are what it has printed. */
export type RunNpm = (
  args: readonly string[],
  options: { cwd: string; env: Record<string, string>; signal: AbortSignal },
) => Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>

/** npm has refused or failed; the message is its own summary. */
export class NpmFailed extends Error {}

export interface Packed {
  readonly file: string
  readonly name: string
  readonly version: string
  /** sha512, as npm writes it. */
  readonly integrity: string
}

export interface Npm {
  /** Fetches a package from its registry, or packs a folder; npm has checked what the registry promises. */
  pack(what: string, registries?: Readonly<Record<string, string>>): Promise<Packed>
  /** Puts packages and what they need into `<folder>/node_modules`; runs none of their scripts. */
  install(folder: string, needs: Needs, registries?: Readonly<Record<string, string>>): Promise<void>
  /** The newest version by the registry's tag `latest`. */
  newest(name: string): Promise<string>
}

const limitMs = 120_000

/** What npm needs of the environment; nothing of the host's own. */
const environment = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      (pair): pair is [string, string] =>
        pair[1] !== undefined &&
        /^(path|home|lang|tmpdir|npm_config_.*|(https?|no|all)_proxy|ssl_cert_(file|dir)|node_extra_ca_certs)$/i.test(
          pair[0],
        ),
    ),
  )

const plainly: Readonly<Record<string, string>> = {
  ETARGET: 'the registry has no such version of it',
  EINTEGRITY: 'what the registry sent is not what it promises: their sha512 differ',
}

const summaryOf = (out: string, err: string): string => {
  let error: { code?: string; summary?: string } = {}
  try {
    error = (JSON.parse(out) as { error?: typeof error }).error ?? {}
  } catch {}
  const printed = err.split('\n').find(line => /^npm (error|ERR!) /.test(line)) ?? ''
  const summary = error.summary || printed.replace(/^npm (error|ERR!) /, '')
  // Addresses may hold credentials.
  const safe = summary
    .replace(/\w+:\/\/\S+/g, 'the registry')
    .split('\n')[0]!
    .trim()
  // Whose it is and no more: a path may be a credential, too.
  const { origin = '' } = URL.parse(/https?:\/\/\S+/.exec(summary)?.[0] ?? '') ?? {}
  if (error.code === 'E404')
    return `${`the registry ${origin}`.trim()} does not have it, or does not show it to this machine`
  return plainly[error.code ?? ''] ?? safe
}

/** npm that keeps all its files below `work`. */
export function createNpm(run: RunNpm, work: string, signal: AbortSignal): Npm {
  const call = async (what: string, args: readonly string[], cwd = work): Promise<unknown> => {
    await mkdir(cwd, { recursive: true, mode: 0o700 })
    const quiet = ['--json', '--ignore-scripts', '--no-audit', '--no-fund', '--no-update-notifier']
    const folders = ['--cache', join(work, 'cache'), '--logs-max', '0']
    const options = {
      cwd,
      env: environment(),
      signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
    }
    const done = await run([...quiet, ...folders, ...args], options).catch(error => {
      const remedy = 'npm must be on the PATH for registries and folders; a packed package needs none'
      throw new NpmFailed(`npm cannot be run: ${error.message}; ${remedy}`)
    })
    signal.throwIfAborted()
    if (options.signal.aborted) throw new NpmFailed(`npm took longer than ${limitMs / 1000} s`)
    if (done.code !== 0)
      throw new NpmFailed(
        `npm, asked for ${what}: ${summaryOf(done.out, done.err) || `exit code ${done.code}`}`,
      )
    try {
      return JSON.parse(done.out)
    } catch {
      throw new NpmFailed('npm answered what is not JSON; it may be too old')
    }
  }
  const scopesOf = (registries: Readonly<Record<string, string>> = {}): string[] =>
    Object.entries(registries).map(([scope, url]) => `--${scope}:registry=${url}`)
  return {
    async pack(what, registries) {
      const scopes = scopesOf(registries)
      const answer = await call(what, ['pack', '--pack-destination', work, ...scopes, '--', what])
      const [packed] = Object.values(answer as Record<string, Packed & { filename: string }>)
      if (!packed?.integrity?.startsWith('sha512-')) throw new NpmFailed('npm gave no sha512 of the package')
      const { name, version, integrity, filename } = packed
      return { file: join(work, filename.replace(/^@/, '').replaceAll('/', '-')), name, version, integrity }
    },
    async install(folder, { dependencies, optionalDependencies }, registries) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      // In a folder of our own: npm would take a stranger's .npmrc and lock for the operator's.
      const json = { private: true, dependencies, optionalDependencies }
      await writeFile(join(folder, 'package.json'), JSON.stringify(json))
      const shape = ['--omit=dev', '--legacy-peer-deps', '--no-package-lock', '--no-bin-links']
      // What is not in a registry is not fetched, whoever names it.
      const only = ['--git=/bin/false', '--install-links=false']
      await call('its dependencies', ['install', ...shape, ...only, ...scopesOf(registries)], folder)
    },
    async newest(name) {
      const version = await call(name, ['view', '--', name, 'version'])
      if (typeof version !== 'string') throw new NpmFailed(`the registry has no version of ${name}`)
      return version
    },
  }
}
