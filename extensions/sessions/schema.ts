// Shapes of session events and their parts (wire-decisions, "Reference shapes").
import { z } from 'zod'

const Plane = z.enum(['native', 'compat'])

/** How a session came to its end (wire-decisions, "Sessions"). */
export const Ended = z.enum([
  'local',
  'game_exited',
  'host_ended',
  'host_error',
  'lost',
  'stopped_by_operator',
])
export type Ended = z.output<typeof Ended>

export const DisconnectReason = z.enum(['quit', 'timeout', 'error'])
export type DisconnectReason = z.output<typeof DisconnectReason>

export const ClientRef = z.object({ name: z.string(), fingerprint: z.string().optional(), plane: Plane })

export const SessionRef = z.object({
  id: z.int(),
  client: z.string(),
  fingerprint: z.string().optional(),
  mode: z.string(),
  hdr: z.boolean(),
  plane: Plane,
})

export const StreamRef = z.object({
  mode: z.string(),
  hdr: z.boolean(),
  client: z.string(),
  fingerprint: z.string().optional(),
  app: z.string().optional(),
  plane: Plane,
})

const count = z.int().nonnegative()

/** What a finished session was like; counters that a plane cannot tell are left out. */
export const SessionSummary = z.object({
  id: z.int(),
  client: z.string(),
  client_name: z.string().optional(),
  started_unix: z.int(),
  duration_s: count,
  mode: z.string(),
  hdr: z.boolean(),
  codec: z.string(),
  bit_depth: z.int(),
  chroma: z.enum(['4:2:0', '4:4:4']),
  bitrate_kbps: count,
  bringup_ms: count,
  ended: Ended,
  join: z.boolean().optional(),
  frames_sent: count.optional(),
  frames_dropped: count.optional(),
  path_mtu: count.optional(),
  input: z.object({ events: count, mic: count, rich: count, dropped: count }).optional(),
})
export type SessionSummary = z.output<typeof SessionSummary>
