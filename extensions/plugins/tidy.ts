// Bringing the folders in line with the ledger: after a crash before anything starts, and after each operation.
import { readdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PermissionDecision } from 'svc-host/sdk'
import { withFallback, withoutMark } from './change.ts'
import { keptVersions, type Layout, layoutOf, readLedger, writeLedger, writeOrRemove } from './ledger.ts'
import { dropUnitToken, syncTokens } from './tokens.ts'

const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true })
const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])

/** Ends an operation wherever it stands: an update that has not shown that it comes up is taken back. */
export async function recover(configDir: string): Promise<void> {
  const layout = layoutOf(configDir)
  await remove(layout.work)
  await remove(`${layout.ledger}.new`)
  const ledger = await readLedger(layout)
  const trials = Object.keys(ledger.packages).filter(pkg => ledger.packages[pkg]!.fallback !== undefined)
  if (trials.length > 0) await writeLedger(layout, trials.reduce(withFallback, ledger))
}

export interface Remains {
  /** How many durable effects of an extension have not been taken back; its undo module is needed until then. */
  owed(id: string): number
  /** Drops what the host remembers of it. */
  forget(id: string): Promise<void>
  /** Replaces what was decided about its permissions. */
  decide(id: string, decision: PermissionDecision): Promise<void>
}

/** Brings back what was decided before an operation that has not come to its end. */
export async function restoreDecisions(
  configDir: string,
  { decide }: Pick<Remains, 'decide'>,
): Promise<void> {
  const layout = layoutOf(configDir)
  const ledger = await readLedger(layout)
  const due = Object.entries(ledger.restoring ?? {})
  for (const [id, decision] of due) await decide(id, decision)
  if (due.length > 0) await writeOrRemove(layout, due.map(([id]) => id).reduce(withoutMark, ledger))
}

/** Removes what the ledger does not name. What an undo module is still needed for stays for the next time. */
export async function sweep(configDir: string, { owed, forget, decide }: Remains): Promise<void> {
  const layout = layoutOf(configDir)
  await restoreDecisions(configDir, { decide })
  const ledger = await readLedger(layout)
  const kept = new Map<string, Set<string>>()
  for (const [pkg, { id }] of Object.entries(ledger.packages))
    kept.set(id, new Set(keptVersions(ledger, pkg)))
  // Somebody may have written dependencies by hand; theirs are not ours to remove.
  const isByHand = Object.keys(ledger.dependencies).some(pkg => !ledger.packages[pkg])
  for (const id of isByHand ? [] : await namesIn(layout.versions)) {
    if (owed(id) > 0) continue
    for (const version of await namesIn(join(layout.versions, id)))
      if (!kept.get(id)?.has(version)) await remove(join(layout.versions, id, version))
    await rmdir(join(layout.versions, id)).catch(() => {})
  }
  const isInstalled = (id: string): boolean => kept.has(id)
  const done = ledger.removing.filter(({ id }) => owed(id) === 0)
  for (const { id, keepData } of done) {
    if (isInstalled(id)) continue
    await forget(id)
    await dropUnitToken(configDir, id)
    if (keepData) continue
    await remove(layout.stateOf(id))
    await remove(layout.configOf(id))
  }
  const seals = Object.fromEntries(
    Object.entries(ledger.seals).flatMap(([pkg, versions]) => {
      const left = Object.entries(versions).filter(([version]) => keptVersions(ledger, pkg).includes(version))
      return left.length ? [[pkg, Object.fromEntries(left)]] : []
    }),
  )
  const packages = Object.fromEntries(
    Object.entries(ledger.packages).map(([pkg, entry]) => {
      const versions = keptVersions(ledger, pkg)
      const only = (record: Readonly<Record<string, string>>): Record<string, string> =>
        Object.fromEntries(Object.entries(record).filter(([version]) => versions.includes(version)))
      const contents = only(entry.contents ?? {})
      const hasContents = Object.keys(contents).length > 0
      return [
        pkg,
        { ...entry, integrity: only(entry.integrity), contents: hasContents ? contents : undefined },
      ]
    }),
  )
  const next = { ...ledger, seals, packages, removing: ledger.removing.filter(each => !done.includes(each)) }
  if (JSON.stringify(next) !== JSON.stringify(ledger)) await writeOrRemove(layout, next)
  await syncTokens(configDir, [...kept.keys()])
  await removeEmpty(layout)
}

/** Folders that nothing lies in any more. */
async function removeEmpty({ versions, plugins, stateOf }: Layout): Promise<void> {
  for (const folder of [versions, plugins, dirname(stateOf('any'))]) await rmdir(folder).catch(() => {})
}
