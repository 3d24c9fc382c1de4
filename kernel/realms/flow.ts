// Keeps a stranger's lines in the log down to so many in each second, and says how many were left out.

/** True: one more may pass. `tell` hears of those that did not, with the next that does. */
export function createFlow(perSecond: number, tell: (leftOut: number) => void): () => boolean {
  let since = 0
  let seen = 0
  return () => {
    const now = performance.now()
    if (now - since >= 1000) {
      const leftOut = seen - perSecond
      since = now
      seen = 0
      if (leftOut > 0) tell(leftOut)
    }
    seen += 1
    return seen <= perSecond
  }
}
