// The event bus: validated events in one order, a ring to replay from, listeners that can never hold up an emitter.
import type { EventBus, EventKind, EventRecord } from 'svc-host/sdk'
import { explainIssues, runAs } from './errors.ts'

/** Events that the ring holds (wire-decisions, "Limits"). */
const ringSize = 1024

type Listener = (event: EventRecord) => unknown

export interface Bus extends EventBus {
  /** Validates, numbers and publishes; throws when the payload does not fit its kind. */
  emit<P extends object>(kind: EventKind<P>, payload: P): EventRecord
  /** Observes one kind on behalf of `owner`; returns the way to stop. */
  on(owner: string, kind: string, listener: Listener): () => void
  /** Resolves when everybody who was told of an event so far is done with it. */
  settled(): Promise<unknown>
}

export function createBus(report: (owner: string, during: string, error: unknown) => void): Bus {
  const ring: EventRecord[] = []
  const observers = new Set<(event: EventRecord) => void>()
  const running = new Set<Promise<unknown>>()
  let newest = 0

  /** Later events only: what `replay` has shown is not told again. */
  const observe = (tell: (event: EventRecord) => void): (() => void) => {
    const since = newest
    const observer = (record: EventRecord): void => {
      if (record.seq > since) tell(record)
    }
    observers.add(observer)
    return () => void observers.delete(observer)
  }

  return {
    newest: () => newest,
    replay(seq) {
      const oldest = ring[0]?.seq ?? newest + 1
      return { events: ring.filter(record => record.seq > seq), dropped: seq < oldest - 1 }
    },
    subscribe: listener => observe(listener),
    on(owner, kind, listener) {
      return observe(record => {
        if (record.kind !== kind) return
        const failed = (error: unknown): void => void report(owner, `event ${kind}`, error)
        const run = runAs(owner, async () => listener(record)).catch(failed)
        running.add(run)
        void run.finally(() => running.delete(run))
      })
    },
    settled: () => Promise.resolve().then(() => Promise.all(running)),
    emit(kind, payload) {
      const parsed = kind.payload.safeParse(payload)
      if (!parsed.success) throw new Error(`event ${kind.kind}: ${explainIssues(parsed.error)}`)
      // A value that does not exist is left out, on every level: the record is what the wire shows.
      const fields = JSON.parse(JSON.stringify(parsed.data)) as object
      newest += 1
      const record: EventRecord = Object.freeze({
        ...fields,
        seq: newest,
        ts_ms: Date.now(),
        schema: 1,
        kind: kind.kind,
      })
      ring.push(record)
      if (ring.length > ringSize) ring.shift()
      // Told after the emitter's own code has run on, in order; whoever has left by then is not told.
      queueMicrotask(() => {
        for (const observer of [...observers]) if (observers.has(observer)) observer(record)
      })
      return record
    },
  }
}
