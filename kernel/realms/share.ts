// A share of the time: whoever has had more than that waits until it is paid back.

/** Part of the time that one extension may keep the host or its sandbox busy, slowed down or not, and how much it may borrow. */
export const partOf = (isSlow: boolean): number => (isSlow ? 0.05 : 0.25)
const creditMs = 500

export interface Share {
  charge(ms: number): void
  /** How long to wait before the next turn, in milliseconds. */
  debtMs(): number
}

export function createShare(isSlow: () => boolean): Share {
  /** Time owed in milliseconds, as of `at`. */
  let owed = 0
  let at = performance.now()
  const charge = (ms: number): void => {
    const now = performance.now()
    owed = Math.max(0, owed - (now - at) * partOf(isSlow())) + ms
    at = now
  }
  return {
    charge,
    debtMs() {
      charge(0)
      return Math.max(0, (owed - creditMs) / partOf(isSlow()))
    },
  }
}
