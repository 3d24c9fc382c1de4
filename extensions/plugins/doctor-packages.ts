// What can be told of installed packages without a host: whether they are those of the ledger, and can run here.
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandContext } from 'svc-host/sdk'
import type { Check, Finding } from './doctor.ts'
import { installedPackages } from './installed.ts'
import { keptVersions, type Ledger, layoutOf, readLedger } from './ledger.ts'

export type Found = Omit<Finding, 'check'>

export interface FolderOptions extends Pick<CommandContext, 'configDir' | 'examine'> {
  /** Whether a host runs with this folder: some things are only left over when none does. */
  readonly isRunning: boolean
  /** Ask registries, too. */
  readonly mayAskNetwork: boolean
}

export const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
export const error = (what: string, remedy?: string, id?: string): Found => finding('error', what, remedy, id)
export const warning = (what: string, remedy?: string, id?: string): Found =>
  finding('warning', what, remedy, id)
const finding = (level: Finding['level'], what: string, remedy?: string, id?: string): Found => ({
  level,
  what,
  ...(remedy !== undefined && { remedy }),
  ...(id !== undefined && { id }),
})

export const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

export function packageChecks({ configDir, examine, isRunning }: FolderOptions): Check[] {
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
  ]
}
