// Time as the pool sees it, so that tests can move it.

export interface Clock {
  /** Monotonic milliseconds. */
  nowMs(): number
  /** Calls `run` once after `delayMs`; returns the way to call it off. */
  after(delayMs: number, run: () => void): () => void
}

/** What `wait` resolves to; false when it takes longer than `limitMs`. */
export const within = (clock: Clock, limitMs: number, wait: Promise<boolean>): Promise<boolean> => {
  const late = Promise.withResolvers<boolean>()
  const stop = clock.after(limitMs, () => late.resolve(false))
  return Promise.race([wait, late.promise]).finally(stop)
}
