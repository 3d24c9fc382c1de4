// Leases: the references that sessions hold to displays, and what the policy makes of a second one who comes.
import { type DisplayBackend, type DisplayLease, DisplaysBusy } from './api.ts'
import { type Clock, within } from './clock.ts'
import type { PooledDisplay } from './display.ts'
import { isGone, type LifeInput } from './lifecycle.ts'
import type { DisplayPolicy } from './policy.ts'

/** How long sessions that must make way may take to end. */
const leaveLimitMs = 5000

/** A lease that has not been given back. */
interface Holder {
  readonly entry: PooledDisplay
  readonly taken: PromiseWithResolvers<void>
  readonly released: PromiseWithResolvers<void>
}

export interface Leases {
  /** A lease of a display whose reference has been counted. */
  open(entry: PooledDisplay): DisplayLease
  /**
   * Settles what a new session means for those that are live: the display to join, with a reference to it taken, or
   * undefined when it may have its own. Rejects where the policy refuses it.
   */
  settle(backend: DisplayBackend): Promise<PooledDisplay | undefined>
}

export interface LeaseParts {
  readonly policy: () => DisplayPolicy
  readonly clock: Clock
  /** Gives the last input to a display; resolves when nothing is left of one that it ended. */
  leave(entry: PooledDisplay, input: LifeInput): Promise<void>
}

const usersOf = ({ life }: PooledDisplay): number => (life.state === 'active' ? life.sessions : 0)

export function createLeases({ policy, clock, leave }: LeaseParts): Leases {
  const holders = new Set<Holder>()

  return {
    async settle(backend) {
      const live = [...holders].filter(
        ({ entry }) => entry.backend === backend && entry.life.state === 'active',
      )
      const { modeConflict } = policy()
      const [first] = live
      if (!first || modeConflict === 'separate') return undefined
      if (modeConflict === 'join') {
        first.entry.go({ type: 'acquire' })
        return first.entry
      }
      if (modeConflict === 'reject') {
        throw new DisplaysBusy('another device uses this host; the display policy gives it to one at a time')
      }
      for (const { taken } of live) taken.resolve()
      const left = Promise.all(live.map(({ released }) => released.promise)).then(() => true)
      if (await within(clock, leaveLimitMs, left)) return undefined
      throw new Error('the session that must make way does not end; stop it on the host, then connect again')
    },

    open(entry) {
      const taken = Promise.withResolvers<void>()
      const holder: Holder = { entry, taken, released: Promise.withResolvers<void>() }
      holders.add(holder)
      let released: Promise<void> | undefined
      return {
        slot: entry.slot,
        backend: entry.backend.id,
        get mode() {
          return entry.mode
        },
        get picture() {
          return entry.made!.picture
        },
        isJoined: usersOf(entry) > 1,
        get isShared() {
          return usersOf(entry) > 1
        },
        lost: entry.lost.promise,
        taken: taken.promise,
        async resize(mode) {
          if (released || isGone(entry.life)) throw new Error(`display ${entry.slot} is gone; start again`)
          const users = usersOf(entry)
          if (users > 1) {
            throw new Error(
              `display ${entry.slot} is shared by ${users} sessions; its mode can change when one has it alone`,
            )
          }
          const picture = await entry.made!.resize(mode)
          entry.mode = mode
          return picture
        },
        release({ deliberate, failed = false }) {
          if (released) return released
          // What is passed through is never kept: there is nothing of ours to keep.
          const keepAlive = entry.backend.owned ? policy().keepAlive : ({ mode: 'off' } as const)
          released = leave(
            entry,
            failed ? { type: 'fail' } : { type: 'leave', deliberate, keepAlive, nowMs: clock.nowMs() },
          )
          holders.delete(holder)
          const done = (): void => holder.released.resolve()
          released.then(done, done)
          return released
        },
      }
    },
  }
}
