// What can be told from the config folder alone, whether a host runs or not.
import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import process from 'node:process'
import type { CommandContext } from 'svc-host/sdk'
import type { Check, Finding } from './doctor.ts'
import { installedPackages } from './installed.ts'
import { keptVersions, type Ledger, layoutOf, readLedger } from './ledger.ts'

type Found = Omit<Finding, 'check'>

export interface FolderOptions extends Pick<CommandContext, 'configDir' | 'examine'> {
  /** Whether a host runs with this folder: some things are only left over when none does. */
  readonly isRunning: boolean
  /** Ask registries, too. */
  readonly mayAskNetwork: boolean
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
const error = (what: string, remedy?: string, id?: string): Found => finding('error', what, remedy, id)
const warning = (what: string, remedy?: string, id?: string): Found => finding('warning', what, remedy, id)
const finding = (level: Finding['level'], what: string, remedy?: string, id?: string): Found => ({
  level,
  what,
  ...(remedy !== undefined && { remedy }),
  ...(id !== undefined && { id }),
})

const runs = (command: string, ...args: string[]): Promise<string | undefined> =>
  new Promise(done => {
    execFile(command, args, { timeout: 20_000 }, (failure, _, said) =>
      done(failure ? said.trim().split('\n').at(-1) || failure.message : undefined),
    )
  })

/** Those that only their owner may look at or change. */
async function checkModes(
  paths: readonly string[],
  wrong: number,
  is: string,
  mode: string,
): Promise<Found[]> {
  const found = await Promise.all(
    paths.map(async path => {
      const about = await stat(path).catch(() => undefined)
      return about && (about.mode & wrong) !== 0 ? [error(`${path} ${is}`, `chmod ${mode} ${path}`)] : []
    }),
  )
  return found.flat()
}

async function secretsIn(configDir: string): Promise<string[]> {
  const states = await namesIn(join(configDir, 'plugin-state'))
  return [
    ...[
      'mgmt-token',
      'plugin-token',
      'native-key.pem',
      'plugin-run/plugin-tokens.json',
      'plugin-run/unit-tokens.json',
    ],
    ...states.map(id => `plugin-state/${id}/.plugin-token`),
  ].map(path => join(configDir, path))
}

async function isJson(path: string): Promise<Found[]> {
  try {
    JSON.parse(await readFile(path, 'utf8'))
    return []
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return []
    return [error(`${path} cannot be used: ${(cause as Error).message}`, 'mend it, or move it away')]
  }
}

/** Lines of the journal that are in force; see kernel/journal.ts for the format. */
function owedIn(text: string): { owner: string; kind: string }[] {
  const live = new Map<number, { owner: string; kind: string }>()
  for (const line of text.split('\n')) {
    try {
      const { op, id, owner, kind } = JSON.parse(line.slice(9))
      if (op === 'do') live.set(id, { owner, kind })
      else if (op === 'done') live.delete(id)
    } catch {}
  }
  return [...live.values()]
}

export function folderChecks({ configDir, examine, isRunning, mayAskNetwork }: FolderOptions): Check[] {
  const layout = layoutOf(configDir)
  /** Only once it could be read. */
  const readable = (): Promise<Ledger | undefined> => readLedger(layout).catch(() => undefined)

  const eachInstalled = async (
    look: (
      pkg: { id: string; pkg: string; version: string; folder: string },
      ledger: Ledger,
    ) => Promise<Found[]>,
  ): Promise<Found[]> => {
    const ledger = await readable()
    if (!ledger) return [finding('skipped', 'the ledger cannot be read')]
    const found: Found[] = []
    for (const each of installedPackages(ledger))
      found.push(...(await look({ ...each, folder: join(layout.versions, each.id, each.version) }, ledger)))
    return found
  }
  const isThere = (path: string): Promise<boolean> =>
    stat(path).then(
      () => true,
      () => false,
    )

  return [
    {
      name: 'ledger',
      async look() {
        const ledger = await readLedger(layout)
        const trials = Object.values(ledger.packages).filter(({ fallback }) => fallback !== undefined)
        const cut = isRunning
          ? []
          : trials.map(({ id }) => warning('an update was cut short', 'the next start takes it back', id))
        const gone = isRunning
          ? []
          : ledger.removing.map(({ id }) =>
              warning('its removal was cut short', 'the next start ends it', id),
            )
        return [...cut, ...gone]
      },
    },
    {
      name: 'settings',
      async look() {
        const names = await namesIn(configDir)
        const configs = (await namesIn(join(configDir, 'extension-config'))).map(name =>
          join('extension-config', name),
        )
        const files = [...names, ...configs].filter(name => name.endsWith('.json'))
        const broken = await Promise.all(files.map(name => isJson(join(configDir, name))))
        const aside = [...names, ...configs].filter(name => /\.json\.broken-/.test(name))
        return [
          ...broken.flat(),
          ...aside.map(name =>
            warning(
              `${join(configDir, name)} was kept when it could not be read`,
              'take from it what you need, and remove it',
            ),
          ),
        ]
      },
    },
    {
      name: 'versions',
      look: () =>
        eachInstalled(async ({ id, pkg, version, folder }) =>
          (await isThere(folder))
            ? []
            : [
                error(
                  `${pkg} ${version} is in the ledger, but not in ${folder}`,
                  `svc-host plugins remove ${id}, and add it again`,
                  id,
                ),
              ],
        ),
    },
    {
      name: 'seals',
      look: () =>
        eachInstalled(async ({ id, pkg, version, folder }, { seals }) => {
          if (!(await isThere(folder))) return []
          const seal = seals[pkg]?.[version]
          if (seal === undefined)
            return [
              warning(
                'nothing says what its files were, so nobody checks them',
                `svc-host plugins add ${pkg} installs it anew`,
                id,
              ),
            ]
          const now = await examine(folder).then(
            ({ seal }) => seal,
            (cause: Error) => cause.message,
          )
          if (now === seal) return []
          const what = now.startsWith('sha512-')
            ? `its files in ${folder} are not those that were installed`
            : now
          return [error(what, `svc-host plugins remove ${id}, and add it again`, id)]
        }),
    },
    {
      name: 'manifests',
      look: () =>
        eachInstalled(async ({ id, folder }) => {
          // Without one it is a unit of the runner.
          if (!(await isThere(join(folder, 'extension.json')))) return []
          const { problem, manifest } = await examine(folder)
          if (problem !== null) return [error(problem, `svc-host plugins update ${id}, or remove it`, id)]
          return manifest && manifest.id !== id
            ? [error(`its manifest has the id ${manifest.id}`, `svc-host plugins remove ${id}`, id)]
            : []
        }),
    },
    {
      name: 'leftovers',
      async look() {
        const ledger = await readable()
        if (!ledger) return [finding('skipped', 'the ledger cannot be read')]
        const kept = new Map<string, string[]>()
        for (const { pkg, id } of installedPackages(ledger)) kept.set(id, keptVersions(ledger, pkg))
        const found: Found[] = []
        for (const id of await namesIn(layout.versions))
          for (const version of await namesIn(join(layout.versions, id)))
            if (!kept.get(id)?.includes(version))
              found.push(
                warning(
                  `${join(layout.versions, id, version)} is in no ledger`,
                  'the next package operation, or the next start, removes it',
                ),
              )
        for (const path of isRunning ? [] : [layout.work, `${layout.ledger}.new`])
          if (await isThere(path))
            found.push(
              warning(`${path} was left by an operation that was cut short`, 'the next start removes it'),
            )
        for (const id of await namesIn(join(configDir, 'plugin-state')))
          if (
            !kept.has(id) &&
            !(await isThere(join(configDir, 'scripts', `${id}.ts`))) &&
            !(await isThere(join(configDir, 'scripts', `${id}.js`)))
          )
            found.push({
              level: 'ok',
              what: `${join(configDir, 'plugin-state', id)} is kept of one that is not installed`,
              id,
            })
        return found
      },
    },
    {
      name: 'secrets',
      look: async () => [
        ...(await checkModes([configDir], 0o077, 'can be looked into by others', '700')),
        ...(await checkModes(await secretsIn(configDir), 0o077, 'can be read or changed by others', '600')),
      ],
    },
    {
      name: 'unit files',
      async look() {
        const scripts = join(configDir, 'scripts')
        const units = (await namesIn(scripts))
          .filter(name => /\.[jt]s$/.test(name))
          .map(name => join(scripts, name))
        const ledger = await readable()
        const folders = ledger
          ? installedPackages(ledger).map(({ id, version }) => join(layout.versions, id, version))
          : []
        const files = await Promise.all(
          folders.map(async folder =>
            (await readdir(folder, { recursive: true }).catch(() => [] as string[])).map(name =>
              join(folder, name),
            ),
          ),
        )
        const all = [...(units.length ? [scripts] : []), ...units, ...folders, ...files.flat()]
        return checkModes(all, 0o002, 'can be changed by everybody, and is not run', 'o-w')
      },
    },
    {
      name: 'walls',
      async look() {
        const why = await runs('bwrap', '--ro-bind', '/', '/', '--unshare-all', '--die-with-parent', 'true')
        if (why === undefined) return []
        const remedy = /ENOENT/.test(why)
          ? 'apt install bubblewrap'
          : 'let unprivileged user namespaces be made (sysctl kernel.unprivileged_userns_clone=1), or run the host outside of a container that forbids them'
        return [error(`bubblewrap does not work, and no stranger’s code runs without it: ${why}`, remedy)]
      },
    },
    {
      name: 'npm',
      async look() {
        const places = (process.env['PATH'] ?? '').split(delimiter).map(folder => join(folder, 'npm'))
        const has = await Promise.all(places.map(isThere))
        if (!has.includes(true))
          return [
            warning('npm is not there: names cannot be installed, packed packages can', 'apt install npm'),
          ]
        if (!mayAskNetwork) return []
        const silent = await runs('npm', 'ping')
        return silent === undefined
          ? []
          : [error(`the registry does not answer: ${silent}`, 'npm config get registry; npm ping')]
      },
    },
    {
      name: 'journal',
      async look() {
        const text = await readFile(join(configDir, 'journal'), 'utf8').catch(() => '')
        const owed = isRunning ? [] : owedIn(text)
        return owed.map(({ owner, kind }) =>
          warning(
            `${kind} of it is in force, though no host runs`,
            'the next start of the host takes it back',
            owner,
          ),
        )
      },
    },
  ]
}
