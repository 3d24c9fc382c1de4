// Sessions' public face: how a plane enters its sessions, who may object, and the events about them.
import type { Mode, PipelineSample } from 'svc-host/api/media'
import { event, hook, token } from 'svc-host/sdk'
import { z } from 'zod'
import {
  ClientRef,
  DisconnectReason,
  type Ended,
  SessionRef,
  type SessionSummary,
  StreamRef,
  SessionSummary as Summary,
} from './schema.ts'

/** A client is admitted. */
export const clientConnected = event('client.connected', z.object({ client: ClientRef }))
/** It goes. */
export const clientDisconnected = event(
  'client.disconnected',
  z.object({ client: ClientRef, reason: DisconnectReason }),
)
/** A session is registered. */
export const sessionStarted = event('session.started', z.object({ session: SessionRef }))
/** It ends; `client.disconnected` follows. */
export const sessionEnded = event('session.ended', z.object({ session: SessionRef, summary: Summary }))
/** Video starts. */
export const streamStarted = event('stream.started', z.object({ stream: StreamRef }))
/** Video stops. */
export const streamStopped = event('stream.stopped', z.object({ stream: StreamRef }))

/** A client that wants a session. */
export interface SessionRequest {
  readonly plane: 'native' | 'compat'
  /** 64 lowercase hex characters, or null for an unidentified client. */
  readonly fingerprint: string | null
  /** As rows and events call it: the first 16 characters of the fingerprint, or the address. */
  readonly client: string
  /** For people; may be empty. */
  readonly name: string
  readonly address: string | undefined
}

/** Whoever answers refuses the session, with a sentence for the client; a failing tap refuses too. */
export const sessionAdmit = hook.bail<SessionRequest, { readonly refuse: string }>('session.admit', {
  onFailure: 'refuse',
})

/** Whoever acts by a setting of `/session/settings` adds its name. */
export const sessionEnforced = hook.waterfall<readonly string[]>('session.enforced', { onFailure: 'skip' })

/** Plain data of a session that goes live. */
export interface SessionFacts {
  readonly mode: Mode
  readonly hdr: boolean
  /** A value of wire-decisions, "Codec value". */
  readonly codec: string
  readonly bitDepth: number
  readonly chroma: '4:2:0' | '4:4:4'
  readonly bitrateKbps: number
  /** It shares the display of another session. */
  readonly join?: true
  /** Video payload of one packet, bytes. */
  readonly packetSizeBytes: number
  /** Whether sound is sent. */
  readonly audio?: boolean
  /** Absent on planes without grants. */
  readonly accessLevel?: 'full' | 'controller' | 'view' | 'custom'
}

/** `operator`: a deliberate stop by the person who runs the host. `stopping`: the host or a part of it goes down. */
export type StopHow = 'operator' | 'stopping'

/** What the registry can ask of a live session. */
export interface SessionControl {
  /** Ends the session, which calls `end` of its entry; resolves when all is over. */
  stop(how: StopHow): Promise<void>
  requestKeyframe(): void
  /** Newest sample of the stream; undefined before the first. */
  sample(): PipelineSample | undefined
}

/** Counters over the whole session, as far as the plane knows them. */
export type SessionTotals = Pick<SessionSummary, 'frames_sent' | 'frames_dropped' | 'path_mtu' | 'input'>

/** One client's session, from its admission on; the plane drives it. */
export interface SessionEntry {
  /** From 1 in each process. */
  readonly id: number
  /** The session is registered and can be stopped. */
  live(facts: SessionFacts, control: SessionControl): void
  /** The first video packet has left, so many milliseconds after the client asked to start. */
  streaming(ttffMs: number): void
  /** Another resolution is there, after so many milliseconds. */
  resized(mode: Mode, ms: number): void
  changed(facts: Partial<Pick<SessionFacts, 'bitrateKbps' | 'accessLevel' | 'audio'>>): void
  /** The operator calls the client something else now. */
  renamed(name: string): void
  /** Over, for good; idempotent: the first end counts. */
  end(ended: Ended, reason: DisconnectReason, totals?: SessionTotals): void
}
export type { DisconnectReason, Ended } from './schema.ts'

export interface SessionRegistry {
  /** Asks whether the client may have a session, and enters it. `busy`: as many run as may. */
  admit(
    request: SessionRequest,
  ): Promise<SessionEntry | { readonly refused: 'busy' | 'denied'; readonly message: string }>
}
export const SessionRegistry = token<SessionRegistry>('session.registry', '1.0.0')
