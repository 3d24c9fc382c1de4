// How late datagrams come behind later ones: what a receiver must be patient for before it takes one for lost.

/** Counters behind the newest whose time is remembered. */
const remembered = 1024
/** What was seen counts less by half after this, microseconds. */
const halfLifeUs = 5_000_000

export interface Reordering {
  /** An authentic datagram of the stream. */
  sample(counter: bigint, arrivalUs: number, isNewest: boolean): void
  /** Longest time, of late, by which a datagram came behind one that was sent after it, microseconds. */
  lateUs(nowUs: number): number
}

export const createReordering = (): Reordering => {
  const counters = new Float64Array(remembered).fill(-1)
  const arrivals = new Float64Array(remembered)
  let newest = -1
  let peakUs = 0
  let peakAtUs = 0
  const lateUs = (nowUs: number) => peakUs * 0.5 ** (Math.max(0, nowUs - peakAtUs) / halfLifeUs)
  return {
    sample: (counter, arrivalUs, isNewest) => {
      const number = Number(counter)
      counters[number % remembered] = number
      arrivals[number % remembered] = arrivalUs
      if (isNewest) {
        newest = number
        return
      }
      if (newest - number >= remembered) return
      // The first of those behind it that arrived: when its absence could first be noticed.
      let overtakenUs = arrivalUs
      for (let later = number + 1; later <= newest; later++) {
        const at = later % remembered
        if (counters[at] === later) overtakenUs = Math.min(overtakenUs, arrivals[at]!)
      }
      const late = arrivalUs - overtakenUs
      if (late >= lateUs(arrivalUs)) {
        peakUs = late
        peakAtUs = arrivalUs
      }
    },
    lateUs,
  }
}
