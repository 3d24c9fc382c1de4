// How fast one address may put new devices on the list: each is an event to everyone who listens, and keys are cheap.
import { isSamePeer } from './source.ts'

/** New devices of one address at once, and then one in so many milliseconds. */
const burst = 32
const refillMs = 1000
/** Addresses to keep count of; the one that has been silent for longest is forgotten first. */
const mostPeers = 256

interface Peer {
  readonly address: string | undefined
  readonly left: number
  /** Monotonic milliseconds at which `left` was right. */
  readonly atMs: number
}

export interface KnockRate {
  /** Counts a new device of this address: 0, or the milliseconds after which it may come. */
  take(address: string | undefined, nowMs: number): number
}

export const createKnockRate = (): KnockRate => {
  let peers: readonly Peer[] = []
  const leftAt = ({ left, atMs }: Peer, nowMs: number): number =>
    Math.min(burst, left + (nowMs - atMs) / refillMs)

  return {
    take: (address, nowMs) => {
      const known = peers.find(peer => isSamePeer(peer.address, address))
      const left = known ? leftAt(known, nowMs) : burst
      if (left < 1) return Math.ceil((1 - left) * refillMs)
      const others = peers.filter(peer => peer !== known && leftAt(peer, nowMs) < burst)
      peers = [...others, { address, left: left - 1, atMs: nowMs }].slice(-mostPeers)
      return 0
    },
  }
}
