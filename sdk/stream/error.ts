// The one error class of the streaming client; its code is what a program branches on.

/** Why the host refused (PROTOCOL.md, section 2.3). An unknown reason is read as `host-error`. */
export const refusalReasons = [
  'version',
  'not-paired',
  'no-window',
  'other-device',
  'outside-lan',
  'pace',
  'wrong-pin',
  'bad-share',
  'denied',
  'no-answer',
  'expired',
  'busy',
  'no-codec',
  'no-display',
  'mode',
  'host-error',
] as const
export type RefusalReason = (typeof refusalReasons)[number]

/** Why a session or connection was closed by a `close` message (PROTOCOL.md, section 2.5). */
export const closeCodes = [
  'quit',
  'error',
  'stopped',
  'game-exited',
  'ended',
  'host-error',
  'stopping',
  'unpaired',
  'replaced',
  'idle',
  'protocol-error',
] as const
export type CloseCode = (typeof closeCodes)[number]

/** Failures that no message of the host names. */
export type LocalCode =
  /** Nothing answers at that address and port. */
  | 'unreachable'
  /** Something answers, but it does not speak `svc/1` over TLS 1.3. */
  | 'not-a-host'
  /** A known host shows another certificate than when it was paired. */
  | 'fingerprint-changed'
  /** The host could not prove that it knows the PIN. */
  | 'host-unproven'
  /** An answer did not come in time. */
  | 'timeout'
  /** The link broke without a `close`; the session may be resumed until the host's idle time-out. */
  | 'lost'
  /** The caller's signal was aborted. */
  | 'aborted'
  /** The connection or session was already closed by this side. */
  | 'closed'
  /** The identity folder or a file in it cannot be used. */
  | 'identity'
  /** An argument is out of its range. */
  | 'bad-argument'
  /** The host has not acknowledged input for so long that no more can be queued. */
  | 'input-overflow'

export type StreamErrorCode = RefusalReason | CloseCode | LocalCode

/** Everything that the streaming client rejects with: a stable `code` and a sentence for people. */
export class StreamError extends Error {
  readonly code: StreamErrorCode
  /** With `pace`: how long to wait before the next try, in milliseconds. */
  readonly retryAfterMs: number | undefined
  constructor(code: StreamErrorCode, message: string, options?: ErrorOptions & { retryAfterMs?: number }) {
    super(message, options)
    this.name = 'StreamError'
    this.code = code
    this.retryAfterMs = options?.retryAfterMs
  }
}

/** Turns an aborted signal into the client's own error. */
export const aborted = (signal: AbortSignal): StreamError =>
  new StreamError('aborted', 'the caller aborted the operation', { cause: signal.reason })
