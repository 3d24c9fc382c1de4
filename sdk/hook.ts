// Hook points: named places where extensions may decide or transform; the caller waits.

/** A hook point, declared in its owner's `api.ts`. `noun.verb`, imperative. */
export interface HookPoint<I, O = I> {
  readonly id: string
  /** `series`: all are told in order; `waterfall`: each returns the next value; `bail`: the first answer wins. */
  readonly kind: 'series' | 'waterfall' | 'bail'
  /** What a tap's throw or time-out means: that tap is skipped, or the whole call is refused. */
  readonly onFailure: 'skip' | 'refuse'
  /** Time limit of one tap in milliseconds. */
  readonly limitMs: number
  readonly __hook?: (input: I) => O
}

interface HookOptions {
  onFailure: 'skip' | 'refuse'
  /** Default 250 ms. */
  limitMs?: number
}

const declare = <I, O>(kind: HookPoint<I, O>['kind'], id: string, o: HookOptions): HookPoint<I, O> => ({
  id,
  kind,
  onFailure: o.onFailure,
  limitMs: o.limitMs ?? 250,
})

export const hook = {
  /** Taps run in order and return nothing. */
  series: <I>(id: string, options: HookOptions) => declare<I, undefined>('series', id, options),
  /** Taps run in order; each gets the value that the one before returned and returns the next. */
  waterfall: <V>(id: string, options: HookOptions) => declare<V, V>('waterfall', id, options),
  /** Taps run in order until one returns something other than undefined. */
  bail: <I, O>(id: string, options: HookOptions) => declare<I, O | undefined>('bail', id, options),
}
