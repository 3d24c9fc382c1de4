// The list of devices that knock at work: the state machine joined with those who wait, the operator and the roster.
import type { KnockAnswer, PairingQueue } from './api.ts'
import { deviceName } from './device-name.ts'
import { accessLevel } from './grants.ts'
import { createKnockRate } from './knock-rate.ts'
import { enter, hold, type Pending, type PendingState, parkedMs, remove, sweep, unpark } from './pending.ts'
import type { Roster } from './roster.ts'
import type { PendingDevice, StoredClient } from './schema.ts'
import type { Serving } from './serving.ts'
import { sourceOf } from './source.ts'
import type { Access } from './window.ts'

/** Tells the outside who knocks and who was sent away. */
export interface QueueNews {
  pending(device: Pending): void
  denied(device: Pending): void
}

export interface Approval {
  /** Undefined: as stored, or as the device calls itself. */
  readonly name: string | undefined
  readonly access: Access
}

export interface Queue extends PairingQueue {
  /** Those who wait and those who have waited, in the order of their ids; empty while no plane answers. */
  list(): readonly PendingDevice[]
  /**
   * Pairs a device and lets its waiting connection go on. `unknown`: no such device; `outside-lan`: it knocked from
   * elsewhere. Rejects when the roster cannot be written; the device then goes on waiting.
   */
  approve(id: number, approval: Approval): Promise<StoredClient | 'unknown' | 'outside-lan'>
  /** Sends a device away; false: no such device. */
  deny(id: number): Promise<boolean>
  /** Ends what has waited too long. */
  sweep(): void
}

export interface QueueParts {
  readonly roster: Pick<Roster, 'find' | 'follow' | 'list' | 'pair'>
  readonly serving: Serving
  readonly news: QueueNews
  /** Makes ids. */
  readonly newId: () => number
  /** Monotonic: a jump of the host's clock neither ends nor prolongs a wait. */
  readonly nowMs?: () => number
}

export const createQueue = (parts: QueueParts): Queue => {
  const { roster, serving, news, newId, nowMs = () => performance.now() } = parts
  const rate = createKnockRate()
  let state: PendingState = []
  /** Of each parked device: the connection that waits. */
  const waiting = new Map<number, (answer: KnockAnswer) => void>()
  /** Of a device about which a decision is being carried out: resolves when that is done. */
  const deciding = new Map<number, Promise<void>>()

  const answer = (id: number, what: KnockAnswer): void => {
    const waiter = waiting.get(id)
    waiting.delete(id)
    waiter?.(what)
  }
  const leaveList = (id: number, what: KnockAnswer): void => {
    state = remove(state, id)
    answer(id, what)
  }
  const sweepNow = (): void => {
    const swept = sweep(state, nowMs())
    state = swept.state
    for (const id of swept.unanswered) answer(id, 'no-answer')
    // The host's clock was set back: an access that was over is not.
    for (const { id, fingerprint } of state) if (roster.find(fingerprint)) leaveList(id, 'approved')
  }

  roster.follow((client, what) => {
    const device = state.find(({ fingerprint }) => fingerprint === client.fingerprint)
    // An edit lets a device in only when it leaves it an access that is not over.
    if (device && (what === 'paired' || roster.find(client.fingerprint))) leaveList(device.id, 'approved')
  })
  serving.onNone(() => {
    for (const { id } of state) leaveList(id, 'stopping')
  })

  /** One decision about a device after the other; undefined when it is not, or no longer, on the list. */
  const inTurn = async <T>(
    id: number,
    decide: (device: Pending) => Promise<T> | T,
  ): Promise<T | undefined> => {
    for (let before = deciding.get(id); before; before = deciding.get(id)) await before
    sweepNow()
    const device = state.find(each => each.id === id)
    if (!device) return undefined
    const done = Promise.withResolvers<void>()
    deciding.set(id, done.promise)
    try {
      return await decide(device)
    } finally {
      deciding.delete(id)
      done.resolve()
    }
  }

  return {
    knock: ({ fingerprint, name, address }) => {
      if (!serving.isServed) return { refused: 'stopping' }
      const already = { limitMs: parkedMs, answer: Promise.resolve('approved' as const), leave: () => {} }
      if (roster.find(fingerprint)) return already
      sweepNow()
      const facts = { fingerprint, name: deviceName(name, fingerprint), address, source: sourceOf(address) }
      const isListed = state.some(device => device.fingerprint === fingerprint)
      const retryAfterMs = isListed ? 0 : rate.take(address, nowMs())
      if (retryAfterMs > 0) return { refused: 'pace', retryAfterMs }
      const entered = enter(state, nowMs(), facts, isListed ? -1 : newId())
      if ('refused' in entered) return entered
      state = entered.state
      const { id, source } = entered.device
      answer(id, 'replaced')
      if (entered.isNew) news.pending(entered.device)
      if (source === 'wan') return { refused: 'outside-lan' }
      const answered = Promise.withResolvers<KnockAnswer>()
      waiting.set(id, answered.resolve)
      return {
        limitMs: parkedMs,
        answer: answered.promise,
        leave: () => {
          if (waiting.get(id) !== answered.resolve) return
          waiting.delete(id)
          state = unpark(state, id)
        },
      }
    },

    list: () => {
      sweepNow()
      const now = nowMs()
      return state
        .toSorted((a, b) => a.id - b.id)
        .map(({ id, name, fingerprint, knockedMs, source }) => {
          const stored = roster.list().find(client => client.fingerprint === fingerprint)
          return {
            id,
            name,
            fingerprint,
            age_secs: Math.floor((now - knockedMs) / 1000),
            source,
            grants: stored?.grants ?? null,
            expires_unix: stored?.expires_unix ?? null,
            granted_unix: stored?.granted_unix ?? null,
            access_level: stored ? accessLevel(stored.grants) : null,
          }
        })
    },

    approve: async (id, { name, access }) => {
      const outcome = await inTurn(id, async ({ source, fingerprint, name: own }) => {
        if (source === 'wan') return 'outside-lan' as const
        state = hold(state, id, true)
        try {
          return await roster.pair(fingerprint, own, access, name)
        } finally {
          state = hold(state, id, false)
        }
      })
      return outcome ?? 'unknown'
    },

    deny: async id =>
      (await inTurn(id, device => {
        leaveList(id, 'denied')
        news.denied(device)
        return true
      })) ?? false,

    sweep: sweepNow,
  }
}
