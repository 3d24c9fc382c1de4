// The ledger's steps of installing, updating, going back and removing, as functions of the ledger before.
import type { PermissionDecision } from 'svc-host/sdk'
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
  /** Seal of what came in the package, where that is not all. */
  readonly contents?: string | undefined
  readonly unit?: Entry['unit']
  /** Unix seconds. */
  readonly installedAt: number
}

/** What is gone back to when the next version does not come up. */
function fallbackOf(
  { dependencies, packages }: Ledger,
  pkg: string,
  decided: PermissionDecision | undefined,
): Pick<Entry, 'fallback'> {
  const version = dependencies[pkg]
  if (version === undefined) return {}
  const { fallback: _, ...entry } = packages[pkg] ?? {}
  return {
    fallback: {
      version,
      ...(packages[pkg] && { entry: entry as Entry }),
      ...(decided && { decided: mutable(decided) }),
    },
  }
}

const mutable = ({ granted, refused }: PermissionDecision) => ({
  granted: [...granted],
  refused: [...refused],
})
const without = <T>(record: Readonly<Record<string, T>> = {}, key: string): Record<string, T> =>
  Object.fromEntries(Object.entries(record).filter(([each]) => each !== key))
const restoringOnly = (restoring: Ledger['restoring'] = {}): Pick<Ledger, 'restoring'> => ({
  restoring: Object.keys(restoring).length ? restoring : undefined,
})

/** What is decided in the course of an operation is taken back should it not come to its end; written before it is decided. */
export function withMark(ledger: Ledger, id: string, decided: PermissionDecision | undefined): Ledger {
  if (decided) return { ...ledger, restoring: { ...ledger.restoring, [id]: mutable(decided) } }
  return { ...ledger, removing: [...ledger.removing, { id, keepData: true }] }
}

/** What was to be restored has been. */
export const withoutMark = (ledger: Ledger, id: string): Ledger => ({
  ...ledger,
  ...restoringOnly(without(ledger.restoring, id)),
})

/**
 * Names the new version; where another runs, that one is what is gone back to until the new one has come up, with what
 * was `decided` then.
 */
export function withArrival(ledger: Ledger, arrival: Arrival, decided?: PermissionDecision): Ledger {
  const { pkg, id, version, tier, source, entryId, integrity, seal, contents, unit, installedAt } = arrival
  const former = ledger.packages[pkg]
  const entry: Entry = {
    id,
    tier,
    installedAt,
    pinned: former?.pinned ?? false,
    integrity: { ...former?.integrity, [version]: integrity },
    ...(former?.contents && { contents: former.contents }),
    ...(contents !== undefined && { contents: { ...former?.contents, [version]: contents } }),
    ...(unit && { unit }),
    ...(source !== undefined && { source }),
    ...(entryId !== undefined && { entryId }),
    ...(former?.previous !== undefined && { previous: former.previous }),
    ...fallbackOf(ledger, pkg, decided),
  }
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: version },
    seals: { ...ledger.seals, [pkg]: { ...ledger.seals[pkg], [version]: seal } },
    packages: { ...ledger.packages, [pkg]: entry },
  }
}

/** The version that a rollback goes back to, on trial like any other. */
export function withRollback(
  ledger: Ledger,
  pkg: string,
  unit?: Entry['unit'],
  decided?: PermissionDecision,
): Ledger {
  const { fallback: _, unit: _unit, ...entry } = ledger.packages[pkg]!
  const next = { ...entry, ...(unit && { unit }), ...fallbackOf(ledger, pkg, decided) } as Entry
  return {
    ...ledger,
    dependencies: { ...ledger.dependencies, [pkg]: entry.previous as string },
    packages: { ...ledger.packages, [pkg]: next },
  }
}

/** Back to what was there before the version that is on trial. */
export function withFallback(ledger: Ledger, pkg: string): Ledger {
  const { fallback, id } = ledger.packages[pkg] ?? {}
  if (!fallback) return ledger
  const { version, entry, decided } = fallback
  return {
    ...ledger,
    ...(decided && { restoring: { ...ledger.restoring, [id!]: decided } }),
    dependencies: { ...ledger.dependencies, [pkg]: version },
    packages: { ...without(ledger.packages, pkg), ...(entry && { [pkg]: entry }) },
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
