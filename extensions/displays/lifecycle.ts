// The life of one virtual display: a pure function of its state and one input, time included.
import type { KeepAlive } from './policy.ts'

export type Life =
  /** Being made. */
  | { readonly state: 'idle' }
  | { readonly state: 'active' /** References, from 1. */; readonly sessions: number }
  | { readonly state: 'lingering' /** On the pool's monotonic clock. */; readonly deadlineMs: number }
  /** Kept until the operator releases it. */
  | { readonly state: 'pinned' }
  | { readonly state: 'released' }
  /** It died, or its first picture never came. */
  | { readonly state: 'failed' }

export type LifeInput =
  | { readonly type: 'acquire' }
  | {
      readonly type: 'leave'
      /** The client quit, so nothing lingers unless pinned. */
      readonly deliberate: boolean
      readonly keepAlive: KeepAlive
      readonly nowMs: number
    }
  | { readonly type: 'time'; readonly nowMs: number }
  /** The operator's release. */
  | { readonly type: 'release' }
  /** A kept display gives way to a new one. */
  | { readonly type: 'preempt' }
  | { readonly type: 'fail' }

const released: Life = { state: 'released' }

const afterLast = (input: Extract<LifeInput, { type: 'leave' }>): Life => {
  const { keepAlive, nowMs } = input
  if (keepAlive.mode === 'forever') return { state: 'pinned' }
  if (input.deliberate || keepAlive.mode === 'off' || keepAlive.seconds === 0) return released
  return { state: 'lingering', deadlineMs: nowMs + keepAlive.seconds * 1000 }
}

/** The state that follows. An input that does not apply returns the very same state. */
export function step(life: Life, input: LifeInput): Life {
  if (isGone(life)) return life
  if (input.type === 'fail') return { state: 'failed' }
  switch (life.state) {
    case 'idle':
      return input.type === 'acquire' ? { state: 'active', sessions: 1 } : life
    case 'active':
      if (input.type === 'acquire') return { state: 'active', sessions: life.sessions + 1 }
      if (input.type !== 'leave') return life
      return life.sessions > 1 ? { state: 'active', sessions: life.sessions - 1 } : afterLast(input)
    case 'lingering':
      if (input.type === 'time') return input.nowMs >= life.deadlineMs ? released : life
      break
    default:
  }
  if (input.type === 'acquire') return { state: 'active', sessions: 1 }
  return input.type === 'release' || input.type === 'preempt' ? released : life
}

/** Nothing is left of it, or soon will be. */
export const isGone = (life: Life): boolean => life.state === 'released' || life.state === 'failed'

/** Kept without a session. */
export const isKept = (life: Life): boolean => life.state === 'lingering' || life.state === 'pinned'
