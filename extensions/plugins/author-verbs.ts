// The verbs for authors, which need no host: what would be refused, packing, and a new plugin that runs as it stands.
import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import type { Command } from 'commander'
import { exitCode, paint, plain, UsageError, type Verb } from 'svc-host/api/ctl'
import type { CommandContext } from 'svc-host/sdk'
import { inspect, type Report } from './inspect.ts'
import { createNpm, type RunNpm } from './npm.ts'
import { ownHost } from './own-host.ts'
import { runTests } from './own-tests.ts'
import { scaffold } from './scaffold.ts'
import { fetchPackage, packFolder } from './source.ts'
import { lookAt } from './workplace.ts'

/** npm as a child of the command line itself. */
const ownNpm: RunNpm = (args, { cwd, env, signal }) =>
  new Promise((done, failed) => {
    const limits = { cwd, env, signal, maxBuffer: 32 * 2 ** 20 }
    execFile('npm', args, limits, (error, out, err) => {
      if (error && typeof error.code !== 'number') failed(error)
      else done({ code: error ? Number(error.code) : 0, out, err })
    })
  })

interface Found {
  readonly report: Report
  /** Absent where it cannot be packed. */
  readonly packed?: { readonly file: string; readonly integrity: string }
}

/** Packs what is at the path, if it is not packed, and looks into it; `use` runs while the files are there. */
async function examined<T>(context: CommandContext, path: string, use: (found: Found) => Promise<T>) {
  const work = await mkdtemp(join(tmpdir(), 'svc-host-pack-'))
  try {
    const { signal, examine } = context
    const npm = createNpm(ownNpm, work, signal)
    const given = resolve(path)
    const isFolder = await stat(given).then(
      found => found.isDirectory(),
      error => {
        throw new UsageError(`${path} cannot be read: ${error.code ?? error.message}`)
      },
    )
    const pack = async () => {
      const file = await packFolder(given, npm)
      return { file, ...(await fetchPackage({ kind: 'file', path: file }, { npm, work, examine, signal })) }
    }
    const made = await pack().catch(error => {
      signal.throwIfAborted()
      return error as Error
    })
    if (made instanceof Error && !isFolder) throw made
    const report = made instanceof Error ? await inspect(given, examine) : made.report
    const names = made instanceof Error ? undefined : made.written.map(each => relative(made.folder, each))
    const more = isFolder ? await lookAt(given, report, names) : { refusals: [], remarks: [] }
    const refusals = [...(made instanceof Error ? [made.message] : []), ...report.refusals, ...more.refusals]
    return await use({
      report: { ...report, refusals, remarks: [...report.remarks, ...more.remarks] },
      ...(!(made instanceof Error) && { packed: made }),
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Whom git knows here; empty where it knows nobody. */
const ownName = (signal: AbortSignal): Promise<string> =>
  new Promise(done => {
    execFile('git', ['config', 'user.name'], { signal }, (error, out) => done(error ? '' : out.trim()))
  })

function verdict({ out }: CommandContext, { report }: Found) {
  const { found, refusals, remarks } = report
  const name = found ? `${found.pkg} ${found.version}` : 'the package'
  const lines = [
    ...refusals.map(why => `${paint(out, 'red', 'refused')}: ${plain(why)}`),
    ...remarks.map(text => `${paint(out, 'yellow', 'remark')}: ${plain(text)}`),
    ...(found?.permissions.length ? [`asks for: ${found.permissions.join(', ')}`] : []),
    refusals.length ? `${name} would be refused.` : `${name} can be installed.`,
  ]
  return { data: report, text: lines.join('\n'), code: refusals.length ? exitCode.refused : exitCode.done }
}

export function authorVerbs(program: Command, context: CommandContext, offline: Verb): void {
  const path = ['[path]', 'folder of a plugin, or a packed one', '.'] as const
  program
    .command('verify')
    .description('say what a host of this version would refuse, without running any of it')
    .argument(...path)
    .option('--json', 'machine-readable')
    .action((given: string) =>
      offline(() => examined(context, given, async found => verdict(context, found))),
    )

  program
    .command('pack')
    .description('pack a plugin into one file that can be installed or published')
    .argument(...path)
    .option('--into <folder>', 'where the file goes', '.')
    .option('--json', 'machine-readable')
    .action((given: string, { into }) =>
      offline(() =>
        examined(context, given, async found => {
          const judged = verdict(context, found)
          if (judged.code !== exitCode.done || !found.packed) return judged
          const { file, integrity } = found.packed
          const target = join(resolve(into), basename(file))
          if (target !== file) await copyFile(file, target)
          return { data: { file: target, integrity }, text: `${target}\n${integrity}` }
        }),
      ),
    )

  program
    .command('test')
    .description("run a plugin's tests, its *.test.js, on the Node that comes with the host")
    .argument('[path]', 'folder of a plugin', '.')
    .option('--json', 'machine-readable; what the tests print goes to standard error')
    .action((given: string, { json }) => offline(() => runTests(context, given, json === true)))

  program
    .command('new')
    .description('write a plugin that runs and is tested as it stands')
    .argument('<name>', 'its id; the folder gets this name')
    .option('--ts', 'in TypeScript, which is the default')
    .option('--js', 'in JavaScript')
    .option('--license <SPDX>', 'its licence; MIT and ISC come with their text', 'MIT')
    .option('--scope <@scope>', 'publish it as @scope/plugin-NAME; default svc-plugin-NAME')
    .option('--json', 'machine-readable')
    .action((name: string, { js, ts, scope, license: licence }) =>
      offline(async () => {
        if (js && ts) throw new UsageError('--js and --ts: choose one')
        if (!/^[A-Za-z0-9][A-Za-z0-9.+-]{0,63}$/.test(licence))
          throw new UsageError(
            `--license ${licence}: expected an SPDX identifier, such as MIT or GPL-3.0-or-later`,
          )
        if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name))
          throw new UsageError(
            `${name} cannot be an id: lower-case words joined by hyphens, such as status-light`,
          )
        if (scope !== undefined && !/^@[a-z0-9][a-z0-9._-]*$/.test(scope))
          throw new UsageError(`--scope ${scope}: expected @ and a name`)
        const pkg = scope === undefined ? `svc-plugin-${name}` : `${scope}/plugin-${name}`
        const { dependencies, toBuild } = await ownHost()
        const { folder, files } = await scaffold(resolve(name), {
          ...{ id: name, pkg, isJavaScript: !!js, licence, host: dependencies },
          ...{ author: await ownName(context.signal), year: new Date().getFullYear() },
        })
        const steps = [...(toBuild && !js ? [toBuild] : []), `cd ${name}`, 'npm install', 'npm test']
        const text = [
          ...files.map(file => join(name, file)),
          ...(files.includes('LICENSE') ? [] : ['', `Its LICENSE is yours to add: the text of ${licence}.`]),
          ...['', `Next: ${steps.join(' && ')}`],
        ]
        return { data: { folder, files }, text: text.join('\n') }
      }),
    )
}
