// The PIN window at work: the state machine, the exchange's arithmetic and the roster joined.
import { randomInt } from 'node:crypto'
import type { PairingWindow } from './api.ts'
import { lvCat, readShare, respond } from './cpace.ts'
import type { Roster } from './roster.ts'
import type { Serving } from './serving.ts'
import { sourceOf } from './source.ts'
import { type Access, arm, attempt, closed, disarm, finish, openAt } from './window.ts'

export interface Pairing extends PairingWindow {
  /** Opens a window with a PIN of its own making. Throws a 503 when no plane answers. */
  arm(options: { fingerprint: string | null; ttlSecs: number; access: Access }): void
  disarm(): void
  status(): { enabled: boolean; armed: boolean; pin: string | null; expires_in_secs: number | null }
}

const hex = (fingerprint: string): Buffer => Buffer.from(fingerprint, 'hex')

/** `nowMs` is monotonic: a jump of the host's clock neither opens nor closes a window. */
export const createPairing = (
  roster: Pick<Roster, 'pair'>,
  serving: Serving,
  onError: (error: unknown) => void,
  nowMs: () => number = () => performance.now(),
): Pairing => {
  let state = closed
  serving.onNone(() => {
    state = disarm(state)
  })

  return {
    serve: serving.serve,

    arm: ({ fingerprint, ttlSecs, access }) => {
      serving.require()
      const pin = String(randomInt(10_000)).padStart(4, '0')
      state = arm(state, nowMs(), { pin, fingerprint, access }, ttlSecs)
    },
    disarm: () => {
      serving.require()
      state = disarm(state)
    },
    status: () => {
      const window = openAt(state, nowMs())
      return {
        enabled: serving.isServed,
        armed: window !== null,
        pin: window?.pin ?? null,
        expires_in_secs: window ? Math.ceil((window.deadlineMs - nowMs()) / 1000) : null,
      }
    },

    begin: request => {
      const tried = attempt(state, nowMs(), request.fingerprint, sourceOf(request.address))
      if ('refused' in tried) return tried
      const clientShare = readShare(request.share)
      if (!clientShare) return { refused: 'bad-share' }
      state = tried.state
      const ci = lvCat(Buffer.from('svc/1 pair'), hex(request.fingerprint), hex(request.hostFingerprint))
      const responder = respond({ prs: Buffer.from(tried.pin), ci, sid: request.sid }, clientShare)
      return {
        share: responder.share,
        confirm: async clientTag => {
          const tag = responder.confirm(clientTag)
          const end = finish(state, nowMs(), tried.exchange, tag !== undefined)
          state = end.state
          if ('refused' in end) return { refused: end.refused }
          try {
            await roster.pair(request.fingerprint, request.name, end.access)
          } catch (error) {
            onError(error)
            return { refused: 'host-error' }
          }
          return { tag: tag! }
        },
        abandon: () => {
          state = finish(state, nowMs(), tried.exchange, false).state
        },
      }
    },
  }
}
