// How late datagrams come behind later ones, and so how many are lost and not only late.

/** Counters behind the newest whose time is remembered. */
const remembered = 1024
/** What was seen counts less by half after this, microseconds. */
const halfLifeUs = 5_000_000
/** What is reckoned with before anything was seen, microseconds. */
const unknownLateUs = 8000

export interface Reordering {
  /** An authentic datagram of the stream. */
  sample(counter: bigint, arrivalUs: number, isNewest: boolean): void
  /** Longest time, of late, by which a datagram came behind one that was sent after it, microseconds. */
  lateUs(nowUs: number): number
  /**
   * Datagrams lost so far: those that had not come `waitUs` after a later one. Never sinks, so that the host can work with
   * differences.
   */
  lost(nowUs: number, waitUs: number): number
}

/** Gaps are looked at again this often, microseconds; as many looks are remembered at most. */
const markEveryUs = 10_000
const mostMarks = 32

export const createReordering = (): Reordering => {
  const counters = new Float64Array(remembered).fill(-1)
  const arrivals = new Float64Array(remembered)
  /** What had arrived of the counters up to `newest`, which was the newest at the time. */
  const marks: { readonly atUs: number; readonly newest: number; arrived: number }[] = []
  let received = 0
  let settledLost = 0
  let newest = -1
  let peakUs = unknownLateUs
  let peakAtUs = 0
  const lateUs = (nowUs: number) => peakUs * 0.5 ** (Math.max(0, nowUs - peakAtUs) / halfLifeUs)
  return {
    sample: (counter, arrivalUs, isNewest) => {
      const number = Number(counter)
      counters[number % remembered] = number
      arrivals[number % remembered] = arrivalUs
      if (received++ === 0) peakAtUs = arrivalUs
      for (const mark of marks) if (number <= mark.newest) mark.arrived++
      if (isNewest) {
        newest = number
        const last = marks.at(-1)
        if (last && arrivalUs - last.atUs < markEveryUs) return
        marks.push({ atUs: arrivalUs, newest, arrived: received })
        if (marks.length > mostMarks) marks.shift()
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
    lost: (nowUs, waitUs) => {
      const isSettled = (mark: { atUs: number } | undefined) =>
        mark !== undefined && nowUs - mark.atUs >= waitUs
      while (isSettled(marks[1])) marks.shift()
      const settled = marks[0]
      if (settled && isSettled(settled)) {
        settledLost = Math.max(settledLost, settled.newest + 1 - settled.arrived)
      }
      return settledLost
    },
  }
}
