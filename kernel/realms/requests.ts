// What host and sandbox process say to each other around the packets: kinds of requests, verdicts, and what is loaded.

/** Requests of the host; each gets one answer, in order. */
export const requestKind = { boot: 1, open: 2, enter: 3, close: 4, measure: 5 } as const

/**
 * Kinds of answers: it ran; it ran, and left an error that nobody caught (first line); its isolate is gone; likewise, but
 * for want of a processor.
 */
export const verdict = { done: 101, threw: 102, dead: 103, starved: 104 } as const

/** Whether what was cut had hardly begun: of its time it was kept waiting for a processor. */
export const isStarved = (limitMs: number, tookMs: number, waitedMs: number): boolean =>
  tookMs - waitedMs < limitMs / 2

/** Of a thread's schedstat: how long it was ready to run, but waited for a processor. */
export const waitedMsOf = (schedstat: string): number => Number(schedstat.split(' ')[1] ?? 0) / 1e6

/** Text of one request: an extension's modules are the largest. */
export const requestLimitBytes = 16 * 1024 * 1024

export interface Load {
  readonly memoryMb: number
  /** Every module by its key; `imports` leads from the names it imports to keys. */
  readonly modules: Readonly<
    Record<string, { readonly code: string; readonly imports: Readonly<Record<string, string>> }>
  >
  /** Key of the extension's own main module. */
  readonly main: string
}
