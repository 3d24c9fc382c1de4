// Which counters of a stream have been seen: PROTOCOL.md, section 4.

/** Counters behind the newest one that can still be told from repeats. */
export const windowSize = 4096

export type Verdict = 'new' | 'repeated' | 'too-old'

/** A sliding bitmap over 64-bit counters; asked before a datagram is opened, told after it was. */
export interface ReplayWindow {
  check(counter: bigint): Verdict
  /** Marks an authentic datagram's counter. True when it is the newest so far. */
  accept(counter: bigint): boolean
  /** Newest counter accepted, or -1n. */
  readonly newest: bigint
}

export const createReplayWindow = (): ReplayWindow => {
  const seen = new Uint8Array(windowSize)
  const size = BigInt(windowSize)
  let newest = -1n
  const slot = (counter: bigint) => Number(counter % size)
  return {
    get newest() {
      return newest
    },
    check: counter => {
      if (counter > newest) return 'new'
      if (newest - counter >= size) return 'too-old'
      return seen[slot(counter)] ? 'repeated' : 'new'
    },
    accept: counter => {
      const isNewest = counter > newest
      if (isNewest) {
        // Every slot between the old and the new front now stands for a counter that has not come yet.
        if (counter - newest >= size) seen.fill(0)
        else for (let c = newest + 1n; c < counter; c++) seen[slot(c)] = 0
        newest = counter
      }
      seen[slot(counter)] = 1
      return isNewest
    },
  }
}
