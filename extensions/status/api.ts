// The status record, host info and local summary: collected from whoever has something to say.
import { hook, token } from 'svc-host/sdk'
import { z } from 'zod'

export const StreamMode = z
  .object({ width: z.int(), height: z.int(), fps: z.int() })
  .meta({ id: 'StreamMode' })

export const StreamRecord = z
  .object({
    width: z.int(),
    height: z.int(),
    fps: z.int(),
    bitrate_kbps: z.int(),
    packet_size: z.int(),
    min_fec: z.int(),
    codec: z.string(),
    time_to_first_frame_ms: z.number().nullable(),
    last_resize_ms: z.number().nullable(),
  })
  .meta({ id: 'Stream' })

export const SessionRow = z
  .object({
    id: z.int().optional(),
    plane: z.enum(['native', 'compat']),
    client: z.string(),
    client_name: z.string().optional(),
    mode: z.string(),
    hdr: z.boolean(),
    uptime_s: z.int(),
    access_level: z.enum(['full', 'controller', 'view', 'custom']).optional(),
    time_to_first_frame_ms: z.number().nullable(),
    last_resize_ms: z.number().nullable(),
    join: z.boolean().optional(),
    muted: z.boolean().optional(),
    pads: z.array(z.int()).optional(),
  })
  .meta({ id: 'Session' })

export const GameRow = z
  .object({
    title: z.string(),
    client: z.string(),
    plane: z.enum(['native', 'compat']),
    state: z.enum(['launching', 'running', 'exited', 'untracked', 'grace']),
    session_id: z.int().optional(),
    app_id: z.string().optional(),
    store: z.string().optional(),
    grace_remaining_s: z.int().optional(),
  })
  .meta({ id: 'Game' })

/** The answer of `GET /status` (wire-decisions, "Status record"). */
export const StatusRecord = z
  .object({
    video_streaming: z.boolean(),
    audio_streaming: z.boolean(),
    pin_pending: z.boolean(),
    paired_clients: z.int(),
    native_paired_clients: z.int(),
    active_sessions: z.int(),
    session: StreamMode.nullable(),
    session_id: z.int().optional(),
    stream: StreamRecord.nullable(),
    sessions: z.array(SessionRow),
    games: z.array(GameRow),
  })
  .meta({ id: 'Status' })
export type StatusRecord = z.output<typeof StatusRecord>

/** The answer of `GET /local/summary` (wire-decisions, "Local summary"): counts and booleans, never secrets. */
export const LocalSummary = z
  .object({
    version: z.string(),
    video_streaming: z.boolean(),
    audio_streaming: z.boolean(),
    session: StreamMode.optional(),
    paired_clients: z.int(),
    native_paired_clients: z.int(),
    pin_pending: z.boolean(),
    pending_approvals: z.int(),
    kept_displays: z.int(),
    conflicts: z.array(z.string()),
    games: z.array(z.string()),
    client_name: z.string().nullable(),
  })
  .meta({ id: 'LocalSummary' })
export type LocalSummary = z.output<typeof LocalSummary>

/** The answer of `GET /host` (wire-decisions, "Host info"). */
export const HostRecord = z
  .object({
    hostname: z.string(),
    uniqueid: z.string().describe('persistent id of this host, 16 uppercase hex characters'),
    local_ip: z.string().describe('LAN address at this moment; 127.0.0.1 while there is none'),
    version: z.string(),
    abi_version: z.int(),
    os: z.string().describe('from generic to specific: linux/<family>/<id>'),
    os_name: z.string(),
    codecs: z.array(z.string()),
    compat: z.boolean(),
    fingerprint: z.string().nullable().describe('SHA-256 of the certificate of this API'),
    ports: z.object({
      mgmt: z.int(),
      http: z.int(),
      https: z.int(),
      rtsp: z.int(),
      video: z.int(),
      control: z.int(),
      audio: z.int(),
      native: z.int().optional(),
    }),
    app_version: z.string().optional(),
    compat_vendor_version: z.string().optional(),
  })
  .meta({ id: 'HostInfo' })
export type HostRecord = z.output<typeof HostRecord>

/** What host info takes from features: codecs, and the ports and plane that are served. */
export const HostFacts = z.object({
  codecs: z.array(z.string()),
  compat: z.boolean(),
  /** Merged over the usual numbers, by the names of `HostRecord.ports`. */
  ports: z.record(z.string(), z.int()),
  /** Versions that the compatible plane announces; empty while it is off. */
  appVersion: z.string().optional(),
  compatVendorVersion: z.string().optional(),
})
export type HostFacts = z.output<typeof HostFacts>

/** Each tap returns the record with its own fields filled in. */
export const statusCollect = hook.waterfall<StatusRecord>('status.collect', { onFailure: 'skip' })
export const summaryCollect = hook.waterfall<LocalSummary>('summary.collect', { onFailure: 'skip' })
export const hostCollect = hook.waterfall<HostFacts>('host.collect', { onFailure: 'skip' })

/** What this host is called: by people, and by clients that must know it again. */
export interface HostNames {
  readonly name: string
  /** 16 uppercase hex characters; `uniqueid` of host info. */
  readonly id: string
}
export const HostNames = token<HostNames>('host.names', '1.0.0')
