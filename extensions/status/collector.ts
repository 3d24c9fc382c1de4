// Collects the records from their hook points; what nobody fills in, or fills in wrongly, keeps its default.
import type { z } from 'zod'
import { HostFacts, LocalSummary, StatusRecord } from './api.ts'

type Collect<T> = (record: T) => Promise<T>

export interface Collector {
  host(): Promise<HostFacts>
  status(): Promise<StatusRecord>
  summary(): Promise<LocalSummary>
}

interface CollectorOptions {
  readonly host: Collect<HostFacts>
  readonly status: Collect<StatusRecord>
  readonly summary: Collect<LocalSummary>
  readonly version: string
  warn(message: string): void
}

const plainHost = (): HostFacts => ({ codecs: [], compat: false, ports: {} })

const idleStatus = (): StatusRecord => ({
  video_streaming: false,
  audio_streaming: false,
  pin_pending: false,
  paired_clients: 0,
  native_paired_clients: 0,
  active_sessions: 0,
  session: null,
  stream: null,
  sessions: [],
  games: [],
})

const idleSummary = (version: string): LocalSummary => ({
  version,
  video_streaming: false,
  audio_streaming: false,
  paired_clients: 0,
  native_paired_clients: 0,
  pin_pending: false,
  pending_approvals: 0,
  kept_displays: 0,
  conflicts: [],
  games: [],
  client_name: null,
})

/** Order of `codecs` on the wire; others follow by name. */
const codecOrder = ['h264', 'hevc', 'av1', 'vc2']
const rank = (codec: string): number => {
  const place = codecOrder.indexOf(codec)
  return place < 0 ? codecOrder.length : place
}

/** Each codec once, in the order of the wire. */
export const sortCodecs = (codecs: readonly string[]): string[] =>
  [...new Set(codecs)].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))

/**
 * The record with each field that does not fit its schema put back to its default, and the names of those fields.
 * One tap's mistake costs its own field, never the whole answer.
 */
export function mend<T extends object>(
  schema: z.ZodObject,
  fallback: T,
  collected: unknown,
): { record: T; mended: string[] } {
  const given = typeof collected === 'object' && collected !== null ? collected : {}
  const record: Record<string, unknown> = {}
  const mended: string[] = []
  for (const [key, field] of Object.entries(schema.shape)) {
    const parsed = (field as z.ZodType).safeParse((given as Record<string, unknown>)[key])
    const value = parsed.success ? parsed.data : (fallback as Record<string, unknown>)[key]
    if (!parsed.success) mended.push(key)
    if (value !== undefined) record[key] = value
  }
  return { record: record as T, mended }
}

export function createCollector({ version, warn, ...points }: CollectorOptions): Collector {
  const warned = new Set<string>()
  const settle = <T extends object>(point: string, schema: z.ZodObject, fallback: T, collected: T): T => {
    const { record, mended } = mend(schema, fallback, collected)
    for (const field of mended.filter(name => !warned.has(`${point} ${name}`))) {
      warned.add(`${point} ${field}`)
      warn(`a tap of ${point} left "${field}" in a shape that does not fit; its default is shown`)
    }
    return record
  }
  return {
    host: async () => {
      const collected = await points.host(plainHost())
      const facts = settle('host.collect', HostFacts, plainHost(), collected)
      return { ...facts, codecs: sortCodecs(facts.codecs) }
    },
    status: async () =>
      settle('status.collect', StatusRecord, idleStatus(), await points.status(idleStatus())),
    summary: async () => {
      const idle = idleSummary(version)
      const summary = settle(
        'summary.collect',
        LocalSummary,
        idle,
        await points.summary(idleSummary(version)),
      )
      return { ...summary, version }
    },
  }
}
