// How long to wait before something that has failed is tried again.

export interface BackoffOptions {
  /** First and longest wait. */
  readonly firstMs: number
  readonly lastMs: number
  /** What ran this long was in health: the next wait is the first again. */
  readonly healthyMs: number
  /** From 0 to 1. */
  random(): number
}
export const usualBackoff: BackoffOptions = {
  firstMs: 1000,
  lastMs: 60_000,
  healthyMs: 60_000,
  random: Math.random,
}

/** Gives the next wait after a run of `ranMs`: doubled each time, times 0.75 to 1.25, within the limits. */
export function createBackoff({
  firstMs,
  lastMs,
  healthyMs,
  random,
}: BackoffOptions): (ranMs: number) => number {
  let baseMs = firstMs
  return ranMs => {
    if (ranMs >= healthyMs) baseMs = firstMs
    const waitMs = baseMs * (0.75 + random() / 2)
    baseMs = Math.min(baseMs * 2, lastMs)
    return Math.round(Math.min(lastMs, Math.max(firstMs, waitMs)))
  }
}
