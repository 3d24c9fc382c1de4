// Whether packets begin to queue on the way: how far the one-way delay has risen above its recent least.

/** The least of this long is taken for the delay of an empty path, microseconds. */
const memoryUs = 10_000_000

export interface DelayVariation {
  /** A frame taken at `captureUs` (host's clock) was whole at `arrivalUs` (ours); only differences matter. */
  sample(captureUs: number, arrivalUs: number): void
  /** Least delay since the last call minus the least of the last 10 s, microseconds; 0 when nothing came. */
  take(nowUs: number): number
}

export const createDelayVariation = (): DelayVariation => {
  const leasts: { readonly atUs: number; readonly delayUs: number }[] = []
  let current: number | undefined
  return {
    sample: (captureUs, arrivalUs) => {
      const delayUs = arrivalUs - captureUs
      if (current === undefined || delayUs < current) current = delayUs
    },
    take: nowUs => {
      if (current === undefined) return 0
      const delayUs = current
      current = undefined
      while (leasts.length > 0 && nowUs - leasts[0]!.atUs > memoryUs) leasts.shift()
      // Kept rising, so that the first is the least: a monotonic queue.
      while (leasts.length > 0 && leasts.at(-1)!.delayUs >= delayUs) leasts.pop()
      leasts.push({ atUs: nowUs, delayUs })
      return delayUs - leasts[0]!.delayUs
    },
  }
}
