// How fast the path passes datagrams on: from the spacing of those that left the host together. PROTOCOL.md, section 5.4.
import type { VideoPayload } from './video-payload.ts'

/** Shards of one block that must lie between two for their spacing to tell anything. */
const leastSpan = 5
/** Of as many blocks the middle one counts: a client that was held up finds datagrams waiting in a heap. */
const remembered = 15
/** So many must have been seen. */
const leastKnown = 5
/** No client of ours tells arrivals apart better than this, microseconds a datagram. */
const finestUs = 5

export interface PathRate {
  /** A video shard of so many bytes on the wire. */
  sample(shard: Pick<VideoPayload, 'frame' | 'block' | 'idx'>, bytes: number, arrivalUs: number): void
  /** Kilobits a second; 0 while too little was seen. */
  readonly kbps: number
}

export const createPathRate = (): PathRate => {
  const rates: number[] = []
  let train = { frame: -1, block: -1, first: 0, firstUs: 0, newest: 0, newestUs: 0, bytes: 0 }

  const finish = () => {
    const span = train.newest - train.first
    if (span < leastSpan) return
    const us = Math.max(span * finestUs, train.newestUs - train.firstUs)
    rates.push((span * train.bytes * 8000) / us)
    if (rates.length > remembered) rates.shift()
  }

  return {
    sample: ({ frame, block, idx }, bytes, arrivalUs) => {
      if (frame === train.frame && block === train.block) {
        if (idx <= train.newest) return
        train.newest = idx
        train.newestUs = arrivalUs
      } else if (frame > train.frame || (frame === train.frame && block > train.block)) {
        finish()
        train = { frame, block, first: idx, firstUs: arrivalUs, newest: idx, newestUs: arrivalUs, bytes }
      }
    },
    get kbps() {
      if (rates.length < leastKnown) return 0
      return Math.round([...rates].sort((a, b) => a - b)[rates.length >> 1]!)
    },
  }
}
