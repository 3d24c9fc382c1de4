// What a program sees of a streaming session.
import type { AudioPacket } from './audio-assembler.ts'
import type { StreamErrorCode } from './error.ts'
import type { VideoFrame } from './frame-assembler.ts'
import type { Cursor, Mode, Started } from './host-message.ts'
import type { InputEvent } from './input-event.ts'
import type { SessionStats } from './session-stats.ts'

/** Why a session is over: a close code, `lost` (may be resumed), or another local code. */
export interface SessionEnd {
  readonly code: StreamErrorCode
  readonly message: string
}

/** What the host tells beside the stream; all optional. A listener must not throw. */
export interface SessionListener {
  readonly onCursor?: (cursor: Cursor) => void
  readonly onRumble?: (rumble: { pad: number; low: number; high: number; ms: number }) => void
  /** What this client may do from now on: bits of section 2.3. */
  readonly onGrants?: (grants: number) => void
  readonly onBitrate?: (kbps: number) => void
  readonly onResized?: (mode: Mode, generation: number) => void
}

export interface StreamSession {
  /** What the host granted; `session` is what a resume names. */
  readonly started: Started
  /**
   * Frames in order, each once, for one consumer; ends with the session. A consumer that falls behind by 240
   * frames or 64 MiB loses what waits, and goes on with the next keyframe.
   */
  readonly frames: AsyncIterable<VideoFrame>
  /** Opus packets in order, for one consumer; the oldest go when 400 wait. */
  readonly audio: AsyncIterable<AudioPacket>
  /** Queues input. Throws `bad-argument` or `input-overflow`; does nothing once the session is over. */
  sendInput(...events: readonly InputEvent[]): void
  /** Types a text of any length. */
  sendText(text: string): void
  /** Resolves when the host has acknowledged all input sent so far, or the session is over. */
  inputDone(signal?: AbortSignal): Promise<void>
  requestKeyframe(): void
  /** Asks for another mode (section 2.5); rejects with `mode` when the host refuses, or the session's end. */
  resize(mode: Mode, signal?: AbortSignal): Promise<Mode>
  /** A wish; `onBitrate` tells what the host set. */
  setBitrate(kbps: number): void
  /** Tells the host what became of the frames, for people to see; once a second at most. */
  reportPresented(report: { decoded: number; presented: number; decodeUsP50: number }): void
  stats(): SessionStats
  /** From capture to arrival by the synchronized clocks, microseconds; undefined before the first pong. */
  latencyUs(frame: VideoFrame): number | undefined
  /** Resolves when the session is over; never rejects. */
  readonly ended: Promise<SessionEnd>
  /** Ends the session deliberately (`bye`, `close quit`); resolves when both have left. */
  close(): Promise<void>
}
