// Events with reconnect: the live tail, or a replay, that goes on through lost connections and restarts of the host.
import { ApiError } from './errors.ts'
import { eventKinds } from './event-kinds.generated.ts'
import type { components } from './schema.generated.ts'

type EventPayloads = {
  [K in keyof components['schemas'] as K extends `Event.${infer Kind}`
    ? Kind
    : never]: components['schemas'][K]
}
/** Fields that every event has. */
export interface EventEnvelope {
  /** From 1 in each life of the host, rises by 1. */
  readonly seq: number
  /** Unix milliseconds. */
  readonly ts_ms: number
  readonly schema: number
}
/** An event of a kind that this library knows; `kind` tells which fields it has. */
export type HostEvent = {
  [K in keyof EventPayloads]: EventEnvelope & { readonly kind: K } & Readonly<EventPayloads[K]>
}[keyof EventPayloads]

/**
 * What `follow` yields. `unknown`: an event of a kind newer than this library. `dropped`: events were missed; read state
 * again over REST. `live`: what follows happens now. `disconnected`: the next try is in `retryMs`.
 */
export type Followed =
  | { readonly type: 'event'; readonly event: HostEvent }
  | { readonly type: 'unknown'; readonly event: EventEnvelope & { readonly kind: string } }
  | { readonly type: 'dropped' }
  | { readonly type: 'live' }
  | { readonly type: 'disconnected'; readonly error: ApiError; readonly retryMs: number }

export interface FollowOptions {
  /** Comma-separated: exact kinds, `domain.*`, `*`; default all. */
  readonly kinds?: string
  /** Replay what happened after this event; 0: all that the host still holds. Default: the live tail, no replay. */
  readonly since?: number
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal
  /** From 0 to 1, for the jitter; default `Math.random`. */
  readonly random?: () => number
}

/** The cursor of a reader who wants no replay and no word of what was before. */
const tailCursor = String(Number.MAX_SAFE_INTEGER)

const firstWaitMs = 500
const lastWaitMs = 15_000
/** A connection that lasted this long was a good one. */
const healthyMs = 30_000

/** Waits between tries: doubled from the first to the last, each times 0.5 to 1.5; short again after a good connection. */
export function createBackoff(random: () => number): (connectedMs: number) => number {
  let waitMs = firstWaitMs
  return connectedMs => {
    if (connectedMs >= healthyMs) waitMs = firstWaitMs
    const now = waitMs * (0.5 + random())
    waitMs = Math.min(waitMs * 2, lastWaitMs)
    return now
  }
}

/** A host that is starting, full, or has its event stream switched off may answer later; other refusals stay. */
const isPassing = ({ code, status = 0 }: ApiError): boolean =>
  code === 'unreachable' || status >= 500 || status === 404 || status === 429

/** Ends early with the signal, and never rejects. */
const sleep = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise(done => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      done()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
    if (signal?.aborted) end()
  })

interface Frame {
  readonly event: string
  readonly id: string | null
  readonly data: unknown
}
type Open = (options: { kinds?: string; lastEventId?: string; signal?: AbortSignal }) => AsyncIterable<Frame>

const known = new Set<string>(eventKinds)

/** Follows the stream that `open` opens. Throws `ApiError` for a refusal that stays, 401 among them. */
export async function* followEvents(open: Open, options: FollowOptions = {}): AsyncGenerator<Followed> {
  const { kinds, since, signal, random = Math.random } = options
  const nextWait = createBackoff(random)
  let lastEventId = since === 0 ? undefined : String(since ?? tailCursor)
  let hadToWait = false
  while (!signal?.aborted) {
    let liveSinceMs: number | undefined
    let error = new ApiError('unreachable', 'the host ended the event stream')
    try {
      for await (const { event, id, data } of open({ kinds, lastEventId, signal })) {
        if (id !== null) lastEventId = id
        if (event === 'dropped') yield { type: 'dropped' }
        else if (event === 'live') {
          liveSinceMs = performance.now()
          // Nothing has come yet that could tell the host where this reader was.
          if (hadToWait && lastEventId === tailCursor) yield { type: 'dropped' }
          yield { type: 'live' }
        } else if (known.has(event)) yield { type: 'event', event: data as HostEvent }
        else yield { type: 'unknown', event: data as EventEnvelope & { kind: string } }
      }
    } catch (thrown) {
      if (!(thrown instanceof ApiError) || !isPassing(thrown)) throw thrown
      error = thrown
    }
    if (signal?.aborted) return
    hadToWait = true
    const retryMs = nextWait(liveSinceMs === undefined ? 0 : performance.now() - liveSinceMs)
    yield { type: 'disconnected', error, retryMs }
    await sleep(retryMs, signal)
  }
}
