// The display policy: what becomes of a display, and the defaults that a host without settings acts by.

export type KeepAlive =
  | { readonly mode: 'off' }
  | { readonly mode: 'duration' /** 0..86400 */; readonly seconds: number }
  | { readonly mode: 'forever' }

export type Topology = 'extend' | 'primary' | 'exclusive'

export interface Position {
  readonly x: number
  readonly y: number
}

export interface LayoutPolicy {
  readonly mode: 'auto-row' | 'manual'
  /** By identity slot. */
  readonly positions: Readonly<Record<string, Position>>
}

/** The axes in force. */
export interface DisplayPolicy {
  readonly keepAlive: KeepAlive
  readonly topology: 'auto' | Topology
  /**
   * What a session means for those that are live. `separate`: it gets a display of its own; `join`: it shares the live
   * one, in its mode; `steal`: they end; `reject`: it is told that the host is busy.
   */
  readonly modeConflict: 'separate' | 'join' | 'steal' | 'reject'
  readonly identity: 'shared' | 'per-client' | 'per-client-mode'
  readonly layout: LayoutPolicy
  /** 1..16 */
  readonly maxDisplays: number
}

export const defaultPolicy: DisplayPolicy = {
  keepAlive: { mode: 'duration', seconds: 10 },
  topology: 'auto',
  modeConflict: 'separate',
  identity: 'per-client',
  layout: { mode: 'auto-row', positions: {} },
  maxDisplays: 4,
}

/** The topology that a display gets; `auto` is worked out when it is acquired. */
export const effectiveTopology = (
  wanted: DisplayPolicy['topology'],
  isCompositorPinned: boolean,
): Topology => {
  if (wanted !== 'auto') return wanted
  return isCompositorPinned ? 'extend' : 'exclusive'
}
