// Turns: work that must not overlap, one piece after the other.

/** Makes a line to stand in: each piece of work begins when the one before it has ended, well or not. */
export function createTurns(): <T>(work: () => T | Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return work => {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }
}
