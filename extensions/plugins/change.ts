// The ledger's steps of installing, updating, going back and removing, as functions of the ledger before.
import type { Ledger } from './ledger.ts'
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

/** Names the new version; where another runs, that one is what is gone back to until the new one has come up. */
export function withArrival(ledger: Ledger, arrival: Arrival): Ledger {
  const { pkg, id, version, tier, source, entryId, integrity, seal, installedAt } = arrival
  const {
    fallback: _,
    source: _source,
    entryId: _entry,
    ...former
  } = ledger.packages[pkg] ?? { pinned: false }
  const before = ledger.dependencies[pkg]
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: version },
    seals: { ...ledger.seals, [pkg]: { ...ledger.seals[pkg], [version]: seal } },
    packages: {
      ...ledger.packages,
      [pkg]: {
        ...former,
        id,
        tier,
        ...(source !== undefined && { source }),
        ...(entryId !== undefined && { entryId }),
        installedAt,
        integrity: { ...ledger.packages[pkg]?.integrity, [version]: integrity },
        ...(before !== undefined && before !== version && { fallback: before }),
      },
    },
  }
}

/** The version that a rollback goes back to, on trial like any other. */
export function withRollback(ledger: Ledger, pkg: string): Ledger {
  const entry = ledger.packages[pkg]!
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: entry.previous! },
    packages: { ...ledger.packages, [pkg]: { ...entry, fallback: ledger.dependencies[pkg]! } },
  }
}

/** The new version has come up: the one before is what a rollback goes back to. */
export function withProof(ledger: Ledger, pkg: string): Ledger {
  const { fallback, ...entry } = ledger.packages[pkg]!
  if (fallback === undefined) return ledger
  return { ...ledger, packages: { ...ledger.packages, [pkg]: { ...entry, previous: fallback } } }
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
