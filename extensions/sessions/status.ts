// Live sessions as the status record and the local summary show them (wire-decisions, "Status record").
import type { LocalSummary, StatusRecord } from 'svc-host/api/status'
import { type Live, modeString, type Session } from './session.ts'

type Row = StatusRecord['sessions'][number]

const size = ({ facts: { mode } }: Live) => ({ width: mode.width, height: mode.height, fps: mode.hz })

const row = ({ id, request, name }: Session, now: Live, nowMs: number): Row => ({
  ...(request.plane === 'native' ? { id } : {}),
  plane: request.plane,
  client: request.client,
  ...(name.trim() ? { client_name: name } : {}),
  mode: modeString(now.facts.mode),
  hdr: now.facts.hdr,
  uptime_s: Math.max(0, Math.floor((nowMs - now.sinceMs) / 1000)),
  ...(now.facts.accessLevel ? { access_level: now.facts.accessLevel } : {}),
  time_to_first_frame_ms: request.plane === 'native' ? now.ttffMs : null,
  last_resize_ms: now.lastResizeMs,
  ...(now.facts.join ? { join: true } : {}),
})

const streamOf = (now: Live, plane: 'native' | 'compat'): NonNullable<StatusRecord['stream']> => ({
  ...size(now),
  bitrate_kbps: now.facts.bitrateKbps,
  packet_size: now.facts.packetSizeBytes,
  min_fec: 0,
  codec: now.facts.codec,
  time_to_first_frame_ms: plane === 'native' ? now.ttffMs : null,
  last_resize_ms: now.lastResizeMs,
})

const pairs = (sessions: readonly Session[]): { session: Session; now: Live }[] =>
  sessions.flatMap(session => (session.now ? [{ session, now: session.now }] : []))

/** The one session that stands for all: a compatible-plane one if there is, else the oldest native one. */
const representative = (all: ReturnType<typeof pairs>) =>
  all.find(({ session }) => session.request.plane === 'compat') ?? all[0]

/** Sound begins with the picture. */
const hasSound = (all: ReturnType<typeof pairs>): boolean =>
  all.some(({ now }) => now.facts.audio === true && now.ttffMs !== null)

/** `sessions`: live ones, oldest first; `nowMs`: of the clock that they were opened with. */
export const addToStatus = (
  record: StatusRecord,
  sessions: readonly Session[],
  nowMs: number,
): StatusRecord => {
  const all = pairs(sessions)
  const one = representative(all)
  return {
    ...record,
    video_streaming: record.video_streaming || all.some(({ now }) => now.ttffMs !== null),
    audio_streaming: record.audio_streaming || hasSound(all),
    active_sessions: record.active_sessions + all.length,
    ...(one
      ? {
          session: size(one.now),
          stream: streamOf(one.now, one.session.request.plane),
          ...(one.session.request.plane === 'native' ? { session_id: one.session.id } : {}),
        }
      : {}),
    sessions: [...record.sessions, ...all.map(({ session, now }) => row(session, now, nowMs))],
  }
}

export const addToSummary = (summary: LocalSummary, sessions: readonly Session[]): LocalSummary => {
  const all = pairs(sessions)
  const one = representative(all)
  const isStreaming = all.some(
    ({ session, now }) => session.request.plane === 'native' || now.ttffMs !== null,
  )
  return {
    ...summary,
    video_streaming: summary.video_streaming || isStreaming,
    // By the specification, whether or not this client has asked for sound.
    audio_streaming: summary.audio_streaming || isStreaming,
    ...(one ? { session: size(one.now) } : {}),
  }
}
