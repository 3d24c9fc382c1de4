// Where a reader wants to go on: the cursor that it sends, and what the ring makes of it.
import type { EventBus, EventRecord } from 'svc-host/sdk'
import { tailCursor } from './api.ts'

/** What a new stream sends before it is live. */
export interface Replay {
  readonly dropped: boolean
  readonly events: readonly EventRecord[]
}

/** `Last-Event-ID` wins over `since`; one that is no number is ignored, as a browser sends whatever it was given. */
export function cursorOf(lastEventId: string | undefined, since: number | undefined): number | undefined {
  const text = lastEventId?.trim() ?? ''
  return /^\d+$/.test(text) ? Number(text) : since
}

/**
 * What follows the cursor. A cursor above the newest event is of another life of the host: all that it missed cannot
 * be told, so it is told that much, except where it is the tail's own.
 */
export function replayAfter(bus: Pick<EventBus, 'newest' | 'replay'>, cursor: number | undefined): Replay {
  if (cursor === undefined) return { dropped: false, events: bus.replay(0).events }
  if (cursor > bus.newest()) return { dropped: cursor !== tailCursor, events: [] }
  return bus.replay(cursor)
}
