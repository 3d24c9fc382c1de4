// One session's life, connecting to ended, and the events on its way (wire-decisions, "Sessions").
import type { Mode } from 'svc-host/api/media'
import type { EventKind } from 'svc-host/sdk'
import {
  clientConnected,
  clientDisconnected,
  type SessionControl,
  type SessionEntry,
  type SessionFacts,
  type SessionRequest,
  type SessionTotals,
  sessionEnded,
  sessionStarted,
  streamStarted,
  streamStopped,
} from './api.ts'
import type { DisconnectReason, Ended } from './schema.ts'

export type Emit = <P extends object>(kind: EventKind<P>, payload: P) => void

/** What is true of a session that is live. */
export interface Live {
  facts: SessionFacts
  readonly control: SessionControl
  readonly sinceMs: number
  ttffMs: number | null
  lastResizeMs: number | null
}

export interface Session extends SessionEntry {
  readonly request: SessionRequest
  /** What the client is called now; may be empty. */
  readonly name: string
  /** Undefined while connecting and once ended. */
  readonly now: Live | undefined
}

export const modeString = ({ width, height, hz }: Mode): string => `${width}x${height}@${hz}`

const named = (fingerprint: string | null): { fingerprint?: string } =>
  fingerprint === null ? {} : { fingerprint }

/** `nowMs` is monotonic; `unixMs` dates the start for people. */
export interface Clock {
  nowMs(): number
  unixMs(): number
}

export const openSession = (
  id: number,
  request: SessionRequest,
  emit: Emit,
  clock: Clock,
  onEnd: (session: Session) => void,
): Session => {
  const { plane, client, fingerprint } = request
  let { name } = request
  const clientRef = () => ({ name, ...named(fingerprint), plane })
  const startedUnix = Math.floor(clock.unixMs() / 1000)
  let live: Live | undefined
  let isOver = false

  const sessionRef = ({ facts }: Live) => ({
    id,
    client,
    ...named(fingerprint),
    mode: modeString(facts.mode),
    hdr: facts.hdr,
    plane,
  })
  const streamRef = ({ facts }: Live) => ({
    mode: modeString(facts.mode),
    hdr: facts.hdr,
    client,
    ...named(fingerprint),
    plane,
  })

  const summary = (was: Live, ended: Ended, totals: SessionTotals) => ({
    id,
    client,
    ...(name ? { client_name: name } : {}),
    started_unix: startedUnix,
    duration_s: Math.floor((clock.nowMs() - was.sinceMs) / 1000),
    mode: modeString(was.facts.mode),
    hdr: was.facts.hdr,
    codec: was.facts.codec,
    bit_depth: was.facts.bitDepth,
    chroma: was.facts.chroma,
    bitrate_kbps: was.facts.bitrateKbps,
    bringup_ms: was.ttffMs ?? 0,
    ended,
    ...(was.facts.join ? { join: true } : {}),
    ...totals,
  })

  const session: Session = {
    id,
    request,
    get name() {
      return name
    },
    get now() {
      return live
    },

    live: (facts, control) => {
      if (isOver || live) return
      live = { facts, control, sinceMs: clock.nowMs(), ttffMs: null, lastResizeMs: null }
      emit(sessionStarted, { session: sessionRef(live) })
    },
    streaming: ttffMs => {
      if (!live || live.ttffMs !== null) return
      live.ttffMs = Math.round(ttffMs)
      emit(streamStarted, { stream: streamRef(live) })
    },
    resized: (mode, ms) => {
      if (!live) return
      live.facts = { ...live.facts, mode }
      live.lastResizeMs = Math.round(ms)
    },
    changed: facts => {
      if (live) live.facts = { ...live.facts, ...facts }
    },
    renamed: next => {
      name = next
    },
    end: (ended: Ended, reason: DisconnectReason, totals: SessionTotals = {}) => {
      if (isOver) return
      isOver = true
      const was = live
      live = undefined
      onEnd(session)
      if (was && was.ttffMs !== null) emit(streamStopped, { stream: streamRef(was) })
      if (was) emit(sessionEnded, { session: sessionRef(was), summary: summary(was, ended, totals) })
      emit(clientDisconnected, { client: clientRef(), reason })
    },
  }
  emit(clientConnected, { client: clientRef() })
  return session
}
