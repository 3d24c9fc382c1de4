// The roster: a unit for each extension that was found, and what becomes of it when the folders are looked at again.
import type { Log } from 'svc-host/sdk'
import type { Found } from './discover.ts'
import type { Ledger } from './ledger.ts'
import type { Override } from './settings.ts'
import type { Unit } from './unit.ts'

export interface Roster {
  /** In the order of their ids; always the same array. */
  readonly all: readonly Unit[]
  get(id: string): Unit | undefined
  /** Looks again; `stop` ends those that have gone or are another version now before they leave. Returns the ids that went. */
  renew(stop: (leaving: readonly Unit[]) => Promise<void>): Promise<string[]>
}

export interface RosterOptions {
  readonly find: () => Promise<readonly Found[]>
  readonly overridesOf: (found: Found) => readonly Override[]
  readonly ledger: Ledger
  readonly logOf: (owner: string) => Log
}

/** Two finds of one revision are the same code. */
const revisionOf = ({ id, folder, seal, problem }: Found): string => [id, folder, seal, problem].join('\0')

export function createRoster(first: readonly Found[], options: RosterOptions): Roster {
  const { find, overridesOf, ledger, logOf } = options
  const all: Unit[] = []
  const get = (id: string): Unit | undefined => all.find(({ found }) => found.id === id)
  const make = (found: Found): Unit => ({
    found,
    log: logOf(found.id),
    overrides: overridesOf(found),
    isEnabled: !ledger.isDisabled(found.id),
    order: 0,
    state: 'off',
    why: null,
    providers: new Set(),
  })
  all.push(...first.map(make))
  return {
    all,
    get,
    async renew(stop) {
      const next = await find()
      const revisions = new Set(next.map(revisionOf))
      const kept = new Map(all.map(unit => [revisionOf(unit.found), unit]))
      const units = next.map(found => {
        const outdated = `its package is ${found.manifest?.version} now`
        return kept.get(revisionOf(found)) ?? { ...make(found), outdated }
      })
      await stop(all.filter(({ found, state }) => state === 'on' && !revisions.has(revisionOf(found))))
      const before = all.map(({ found }) => found.id)
      // What the former version did wrong is not held against the new one.
      for (const { found } of units)
        if (!kept.has(revisionOf(found)) && before.includes(found.id))
          await ledger.countFailure(found.id, false)
      all.splice(0, all.length, ...units)
      return before.filter(id => !get(id))
    },
  }
}
