// The PIN window as a pure state machine: every input is explicit, monotonic time included (wire-decisions,
// "Native PIN window").
import type { Source } from './source.ts'

/** The access that an operator chose with the window; null: no choice. */
export interface Access {
  /** Mask for whoever completes the window. */
  readonly grants: number | null
  /** How long the access lasts from the moment of pairing. */
  readonly expiresInSecs: number | null
}

export interface Window {
  /** 4 decimal digits. */
  readonly pin: string
  /** Monotonic milliseconds. */
  readonly deadlineMs: number
  /** The one device that may use it; null: any. */
  readonly fingerprint: string | null
  readonly access: Access
}

/** The exchange that spent the window; it pairs only while the window would still be open. */
interface Exchange extends Window {
  readonly id: number
  readonly by: string
}

export interface WindowState {
  readonly open: Window | null
  readonly exchange: Exchange | null
  readonly lastAttemptMs: number | null
  /** Exchanges so far; numbers them. */
  readonly count: number
}

export const closed: WindowState = { open: null, exchange: null, lastAttemptMs: null, count: 0 }

/** At least this long between two attempts, whatever their windows. */
export const paceMs = 2000

const ttl = { default: 120, least: 15, most: 600 }

/** Length of a window in seconds: the wish within bounds. */
export const ttlSecs = (wish: number | null | undefined): number =>
  Math.min(ttl.most, Math.max(ttl.least, wish ?? ttl.default))

/** Opens a window; what was open or under way before is replaced. */
export const arm = (
  state: WindowState,
  nowMs: number,
  window: Omit<Window, 'deadlineMs'>,
  ttlSeconds: number,
): WindowState => ({
  ...state,
  open: { ...window, deadlineMs: nowMs + ttlSecs(ttlSeconds) * 1000 },
  exchange: null,
})

/** Closes the window; an exchange under way pairs nothing. */
export const disarm = (state: WindowState): WindowState => ({ ...state, open: null, exchange: null })

/** The window, if it is open now. */
export const openAt = (state: WindowState, nowMs: number): Window | null =>
  state.open && nowMs < state.open.deadlineMs ? state.open : null

export type Attempt =
  | { readonly refused: 'no-window' | 'other-device' | 'outside-lan' }
  | { readonly refused: 'pace'; readonly retryAfterMs: number }
  | { readonly state: WindowState; readonly exchange: number; readonly pin: string }

/** A device begins an exchange. What is refused changes nothing; what is not spends the window. */
export const attempt = (state: WindowState, nowMs: number, fingerprint: string, source: Source): Attempt => {
  const window = openAt(state, nowMs)
  if (!window) return { refused: 'no-window' }
  if (window.fingerprint !== null && window.fingerprint !== fingerprint) return { refused: 'other-device' }
  if (window.fingerprint === null && source === 'wan') return { refused: 'outside-lan' }
  const readyMs = state.lastAttemptMs === null ? nowMs : state.lastAttemptMs + paceMs
  if (nowMs < readyMs) return { refused: 'pace', retryAfterMs: Math.ceil(readyMs - nowMs) }
  const id = state.count + 1
  return {
    state: { open: null, exchange: { ...window, id, by: fingerprint }, lastAttemptMs: nowMs, count: id },
    exchange: id,
    pin: window.pin,
  }
}

export type Finish =
  | { readonly state: WindowState; readonly refused: 'no-window' | 'wrong-pin' }
  | { readonly state: WindowState; readonly access: Access }

/** An exchange ends with or without proof of the PIN. A lapsed, replaced or disarmed one pairs nothing. */
export const finish = (state: WindowState, nowMs: number, exchange: number, proven: boolean): Finish => {
  const current = state.exchange
  if (current?.id !== exchange) return { state, refused: 'no-window' }
  const done = { ...state, exchange: null }
  if (nowMs >= current.deadlineMs) return { state: done, refused: 'no-window' }
  return proven ? { state: done, access: current.access } : { state: done, refused: 'wrong-pin' }
}
