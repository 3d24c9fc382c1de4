// Frames of the event stream (wire-decisions, "Stream framing"), each made once however many streams send it.
import type { EventRecord } from 'svc-host/sdk'
import { Dropped, Live } from './api.ts'

const control = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

export const droppedFrame = control('dropped', Dropped.parse({ dropped: true }))
export const liveFrame = control('live', Live.parse({ live: true }))
/** A comment line; the empty one after it ends no frame, since none has begun. */
export const heartbeatFrame = ':\n\n'

const made = new WeakMap<EventRecord, string>()

/** The frame of an event. The bus hands the same record to everyone, in the ring and live, so that it is the key. */
export function frameOf(event: EventRecord): string {
  let frame = made.get(event)
  if (frame === undefined) {
    frame = `id: ${event.seq}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`
    made.set(event, frame)
  }
  return frame
}
