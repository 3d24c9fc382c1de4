// The ledger's steps of installing, updating, going back and removing, as functions of the ledger before.
import type { Entry, Ledger } from './ledger.ts'
import type { Tier } from './schema.ts'

export interface Arrival {
  readonly pkg: string
  readonly id: string
  readonly version: string
  readonly tier: Tier
  readonly source?: string | undefined
  readonly entryId?: string | undefined
  readonly integrity: string
  readonly seal: string
  /** Unix seconds. */
  readonly installedAt: number
}

/** What is gone back to when the next version does not come up. */
function fallbackOf({ dependencies, packages }: Ledger, pkg: string): Pick<Entry, 'fallback'> {
  const version = dependencies[pkg]
  if (version === undefined) return {}
  const { fallback: _, ...entry } = packages[pkg] ?? {}
  return { fallback: { version, ...(packages[pkg] && { entry: entry as Entry }) } }
}

/** Names the new version; where another runs, that one is what is gone back to until the new one has come up. */
export function withArrival(ledger: Ledger, arrival: Arrival): Ledger {
  const { pkg, id, version, tier, source, entryId, integrity, seal, installedAt } = arrival
  const former = ledger.packages[pkg]
  const entry: Entry = {
    id,
    tier,
    installedAt,
    pinned: former?.pinned ?? false,
    integrity: { ...former?.integrity, [version]: integrity },
    ...(source !== undefined && { source }),
    ...(entryId !== undefined && { entryId }),
    ...(former?.previous !== undefined && { previous: former.previous }),
    ...fallbackOf(ledger, pkg),
  }
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: version },
    seals: { ...ledger.seals, [pkg]: { ...ledger.seals[pkg], [version]: seal } },
    packages: { ...ledger.packages, [pkg]: entry },
  }
}

/** The version that a rollback goes back to, on trial like any other. */
export function withRollback(ledger: Ledger, pkg: string): Ledger {
  const { fallback: _, ...entry } = ledger.packages[pkg]!
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: entry.previous! },
    packages: { ...ledger.packages, [pkg]: { ...entry, ...fallbackOf(ledger, pkg) } },
  }
}

/** Back to what was there before the version that is on trial. */
export function withFallback(ledger: Ledger, pkg: string): Ledger {
  const { fallback } = ledger.packages[pkg] ?? {}
  if (!fallback) return ledger
  const { [pkg]: _, ...packages } = ledger.packages
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: fallback.version },
    packages: { ...packages, ...(fallback.entry && { [pkg]: fallback.entry }) },
  }
}

/** The new version has come up: the one before is what a rollback goes back to. */
export function withProof(ledger: Ledger, pkg: string): Ledger {
  const { fallback, ...entry } = ledger.packages[pkg]!
  if (fallback === undefined) return ledger
  return { ...ledger, packages: { ...ledger.packages, [pkg]: { ...entry, previous: fallback.version } } }
}

/** Names it no more; what is left of it is to be removed. */
export function withoutPackage(ledger: Ledger, pkg: string, keepData: boolean): Ledger {
  const { [pkg]: _version, ...dependencies } = ledger.dependencies
  const { [pkg]: entry, ...packages } = ledger.packages
  const removing = entry
    ? [...ledger.removing.filter(({ id }) => id !== entry.id), { id: entry.id, keepData }]
    : []
  return { ...ledger, dependencies, packages, removing }
}
