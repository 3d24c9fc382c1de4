// The open streams: each replays, goes live, and is closed when it falls too far behind.
import { type EventBus, type EventRecord, HttpError } from 'svc-host/sdk'
import { replayAfter } from './cursor.ts'
import { droppedFrame, frameOf, heartbeatFrame, liveFrame } from './frame.ts'

/** Streams at once; the next is refused. */
const maxStreams = 32
/** Events that a stream may be behind the live tail. */
const maxBehind = 256
/** Events of the replay that go out in one piece. */
const replayPiece = 64

export interface StreamOptions {
  readonly cursor: number | undefined
  readonly wants: (kind: string) => boolean
  /** Aborted when the reader has gone or the extension stops. */
  readonly signal: AbortSignal
  /** Called when the reader is too far behind to be told any more. */
  readonly onBehind: () => void
}

export interface Feed {
  /** Opens a stream at this moment: nothing between replay and live is lost. Throws 503 when there are too many. */
  open(options: StreamOptions): AsyncIterable<string>
  /** Tells every idle stream's reader that it is still there. */
  heartbeat(): void
  /** Streams that are open. */
  readonly size: number
}

export function createFeed(bus: EventBus): Feed {
  const streams = new Set<Tail>()
  return {
    open({ cursor, wants, signal, onBehind }) {
      if (streams.size >= maxStreams) throw new HttpError(503, 'too many event streams')
      const replay = replayAfter(bus, cursor)
      const tail = new Tail(wants, onBehind)
      const unsubscribe = bus.subscribe(event => tail.push(event))
      streams.add(tail)
      // A stream counts until its connection has gone, whatever its reader does.
      const leave = (): void => {
        unsubscribe()
        tail.close()
        streams.delete(tail)
      }
      signal.addEventListener('abort', leave, { once: true })
      if (signal.aborted) leave()
      return frames(
        replay.dropped,
        replay.events.filter(event => wants(event.kind)),
        tail,
      )
    },
    heartbeat() {
      for (const tail of streams) tail.beat()
    },
    get size() {
      return streams.size
    },
  }
}

async function* frames(dropped: boolean, events: readonly EventRecord[], tail: Tail): AsyncGenerator<string> {
  if (dropped) yield droppedFrame
  for (let at = 0; at < events.length && !tail.closed; at += replayPiece)
    yield events
      .slice(at, at + replayPiece)
      .map(frameOf)
      .join('')
  yield liveFrame
  for (let piece = await tail.next(); piece !== undefined; piece = await tail.next()) yield piece
}

/** What a stream has still to send of what happens now. */
class Tail {
  readonly #wants: (kind: string) => boolean
  readonly #onBehind: () => void
  #waiting: EventRecord[] = []
  /** Events of the piece that the reader has not taken in yet. */
  #underWay = 0
  #beat = false
  #wake: (() => void) | undefined
  closed = false

  constructor(wants: (kind: string) => boolean, onBehind: () => void) {
    this.#wants = wants
    this.#onBehind = onBehind
  }

  push(event: EventRecord): void {
    if (this.closed || !this.#wants(event.kind)) return
    this.#waiting.push(event)
    if (this.#waiting.length + this.#underWay > maxBehind) {
      this.close()
      this.#onBehind()
    } else this.#wake?.()
  }

  /** Only a stream that waits for events gets one: any other has something to send anyway. */
  beat(): void {
    this.#beat = this.#wake !== undefined
    this.#wake?.()
  }

  /** Ends the stream and lets go of what it has not sent; the reader comes back with its cursor. */
  close(): void {
    this.closed = true
    this.#waiting = []
    this.#wake?.()
  }

  /** The next piece to send; undefined: the stream is over. Asking again says that the last piece has been taken. */
  async next(): Promise<string | undefined> {
    this.#underWay = 0
    while (!this.closed && this.#waiting.length === 0 && !this.#beat) {
      const woken = Promise.withResolvers<void>()
      this.#wake = woken.resolve
      await woken.promise
      this.#wake = undefined
    }
    if (this.closed) return undefined
    this.#beat = false
    const events = this.#waiting
    this.#waiting = []
    this.#underWay = events.length
    return events.length ? events.map(frameOf).join('') : heartbeatFrame
  }
}
