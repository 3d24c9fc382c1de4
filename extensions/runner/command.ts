// `svc-host runner`: runs the scripts and plugins of a config folder until it is stopped.
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type CommandContext, defineCommand } from 'svc-host/sdk'
import { plainLine } from './lines.ts'
import { runUnits } from './runner.ts'
import { findUnits, type Places } from './units.ts'

const usage = `svc-host runner [--scripts DIR] [--plugins DIR] [--list]

Runs the scripts (.ts, .js) and the plugin packages of the config folder, each in a process of its own behind walls.

  --scripts DIR   folder of the scripts (default <config>/scripts)
  --plugins DIR   folder whose package.json names the packages (default <config>/plugins)
  --list          says what would be run, and what is refused and why; runs nothing
`

function read(argv: readonly string[], configDir: string): (Places & { list: boolean }) | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      scripts: { type: 'string' },
      plugins: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return 'help'
  return {
    configDir,
    scriptsDir: resolve(values.scripts ?? join(configDir, 'scripts')),
    pluginsDir: resolve(values.plugins ?? join(configDir, 'plugins')),
    list: values.list,
  }
}

/** One line a unit: what it is, where it lies, what it may do; exit code 1 when something is refused. */
async function list(places: Places, out: NodeJS.WritableStream): Promise<number> {
  const { units, refusals } = await findUnits(places)
  for (const { id, kind, file, granted } of units)
    out.write(`${plainLine([id, kind, file, granted.join(', ')].filter(Boolean).join('  '))}\n`)
  for (const { id, file, why } of refusals) out.write(`${plainLine(`${id}  refused  ${file}  ${why}`)}\n`)
  if (units.length + refusals.length === 0) out.write('There is nothing to run.\n')
  return refusals.length ? 1 : 0
}

export default defineCommand({
  async run({ argv, out, err, configDir, signal, jailed, examine }: CommandContext) {
    let given: ReturnType<typeof read>
    try {
      given = read(argv, configDir)
    } catch (error) {
      err.write(`svc-host runner: ${(error as Error).message}\n`)
      return 2
    }
    if (given === 'help') {
      out.write(usage)
      return 0
    }
    if (given.list) return list(given, out)
    const print = (level: string, source: string, text: string): void =>
      void (level === 'ERROR' || level === 'WARN' ? err : out).write(
        `${level} ${source}: ${plainLine(text)}\n`,
      )
    const leave = (): void => print('INFO', 'runner', 'ends all units; a second signal leaves at once')
    signal.addEventListener('abort', leave)
    await runUnits({ ...given, signal, jailed, examine, print })
    return 0
  },
})
