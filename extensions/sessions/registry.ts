// The registry of sessions on all planes: admission, what is live, and deliberate stops.
import type { SessionRegistry, SessionRequest, StopHow } from './api.ts'
import { type Clock, type Emit, openSession, type Session } from './session.ts'

/** Native sessions at once (wire-decisions, "Limits"). */
const mostNative = 4

export interface Sessions extends SessionRegistry {
  /** Sessions that are live, oldest first. */
  live(): readonly Session[]
  /** Ends all live sessions; one that will not end keeps none of the others. */
  stopAll(how: StopHow): Promise<void>
  /** Asks all live sessions for a keyframe; false when none is live. */
  requestKeyframe(): boolean
}

const hostClock: Clock = { nowMs: () => performance.now(), unixMs: () => Date.now() }

export interface SessionsOptions {
  readonly emit: Emit
  /** Calls the taps of `session.admit`; rejects when one of them failed. */
  readonly ask: (request: SessionRequest) => Promise<{ readonly refuse: string } | undefined>
  readonly onError: (message: string, error: unknown) => void
  readonly clock?: Clock
}

export const createSessions = ({ emit, ask, onError, clock = hostClock }: SessionsOptions): Sessions => {
  const entered = new Set<Session>()
  /** Places taken by native clients, those who are still being asked about included. */
  let native = 0
  let lastId = 0

  const live = (): Session[] => [...entered].filter(session => session.now)

  return {
    admit: async request => {
      const takes = request.plane === 'native' ? 1 : 0
      if (native + takes > mostNative) {
        return {
          refused: 'busy',
          message: `this host streams to ${mostNative} devices already; end one of them`,
        }
      }
      native += takes
      const leave = (): void => {
        native -= takes
      }
      try {
        const answer = await ask(request)
        if (answer) {
          leave()
          return { refused: 'denied', message: answer.refuse }
        }
      } catch (error) {
        leave()
        onError(`admission of ${request.client} failed`, error)
        return {
          refused: 'denied',
          message: 'a part of this host that decides on sessions failed; see its log',
        }
      }
      const session = openSession(++lastId, request, emit, clock, gone => {
        entered.delete(gone)
        leave()
      })
      entered.add(session)
      return session
    },

    live,

    stopAll: async how => {
      const stops = live().map(async session => {
        try {
          await session.now?.control.stop(how)
        } catch (error) {
          onError(`session ${session.id} could not be stopped cleanly`, error)
          session.end('host_error', 'error')
        }
      })
      await Promise.all(stops)
    },

    requestKeyframe: () => {
      const all = live()
      for (const session of all) session.now?.control.requestKeyframe()
      return all.length > 0
    },
  }
}
