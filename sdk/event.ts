// Typed event kinds: telling that something happened; observers never block and never veto.
import type { z } from 'zod'

/** A kind of event, `domain.verb` in the past tense, with the schema of its payload. */
export interface EventKind<P extends object = object> {
  readonly kind: string
  readonly payload: z.ZodType<P>
}

/** Declares an event kind. The payload's fields lie flat beside the envelope on the wire. */
export const event = <S extends z.ZodObject>(kind: string, payload: S): EventKind<z.output<S>> => ({
  kind,
  payload: payload as unknown as z.ZodType<z.output<S>>,
})

/** An event as it was published: the envelope (wire-decisions, "Envelope") and the payload's fields. */
export interface EventRecord {
  /** From 1 in each process, rises by 1. */
  readonly seq: number
  /** Unix milliseconds. */
  readonly ts_ms: number
  /** Version of the envelope's shape; 1. */
  readonly schema: number
  readonly kind: string
  readonly [field: string]: unknown
}
