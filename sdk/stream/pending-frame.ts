// One video frame on its way: its blocks, and which of their shards have come. PROTOCOL.md, sections 5.1 and 5.2.
import { recover } from './reed-solomon.ts'
import { type VideoPayload, videoFlags } from './video-payload.ts'

interface Block {
  readonly k: number
  readonly m: number
  readonly blockBytes: number
  readonly shards: (Uint8Array | undefined)[]
  arrived: number
  isWhole: boolean
  /** Shards up to this one have been sent, as it has come. */
  newestIdx: number
}

export interface PendingFrame {
  readonly blocks: (Block | undefined)[]
  readonly generation: number
  readonly captureUs: number
  flags: number
  /** Known once the block with the last-block flag has come. */
  blockCount: number | undefined
  wholeBlocks: number
  /** When a block of it first became whole. */
  firstWholeUs: number | undefined
  /** When its first shard came. */
  readonly begunUs: number
  /** Since when it cannot become whole, unless something sent earlier is still to come. */
  amissUs: number | undefined
  /** When its newest whole block became so. */
  arrivalUs: number
  /** What it holds in memory. */
  bytes: number
}

/** Memory that a shard takes beside its own bytes, roughly: so that tiny shards are not free. */
const bookkeepingBytes = 64

export const beginFrame = (part: VideoPayload, nowUs: number): PendingFrame => ({
  blocks: [],
  generation: part.generation,
  captureUs: part.captureUs,
  flags: 0,
  blockCount: undefined,
  wholeBlocks: 0,
  firstWholeUs: undefined,
  begunUs: nowUs,
  amissUs: undefined,
  arrivalUs: nowUs,
  bytes: 0,
})

export const isWhole = (frame: PendingFrame): boolean =>
  frame.blockCount !== undefined && frame.wholeBlocks === frame.blockCount

/** The block that a shard belongs to, begun if need be; undefined when it contradicts what came before. */
const blockOf = (frame: PendingFrame, part: VideoPayload): Block | undefined => {
  const isLast = (part.flags & videoFlags.lastBlock) !== 0
  if (frame.blockCount === undefined) {
    if (isLast && frame.blocks.length > part.block + 1) return undefined
  } else if (part.block >= frame.blockCount || isLast !== (part.block === frame.blockCount - 1)) {
    return undefined
  }
  const known = frame.blocks[part.block]
  if (known) {
    const isSame = known.k === part.k && known.m === part.m && known.blockBytes === part.blockBytes
    return isSame ? known : undefined
  }
  const block: Block = {
    k: part.k,
    m: part.m,
    blockBytes: part.blockBytes,
    shards: new Array(part.k + part.m).fill(undefined),
    arrived: 0,
    isWhole: false,
    newestIdx: -1,
  }
  frame.blocks[part.block] = block
  if (isLast) frame.blockCount = part.block + 1
  return block
}

/** Blocks leave in order, and so do their shards: too much of what must have left before now has not come. */
const isAmiss = ({ blocks }: PendingFrame): boolean => {
  for (const [b, block] of blocks.entries()) {
    if (!block) return true
    const sent = b < blocks.length - 1 ? block.k + block.m : block.newestIdx + 1
    if (!block.isWhole && sent - block.arrived > block.m) return true
  }
  return false
}

/** Adds a shard; gives how many data shards parity has rebuilt by it, or undefined when it contradicts others. */
export const addShard = (frame: PendingFrame, part: VideoPayload, nowUs: number): number | undefined => {
  const block = blockOf(frame, part)
  if (!block) return undefined
  frame.flags |= part.flags
  if (block.isWhole || block.shards[part.idx]) return 0
  block.shards[part.idx] = part.shard
  block.arrived++
  block.newestIdx = Math.max(block.newestIdx, part.idx)
  frame.bytes += part.shard.length + bookkeepingBytes
  if (block.arrived < block.k) {
    frame.amissUs = isAmiss(frame) ? (frame.amissUs ?? nowUs) : undefined
    return 0
  }
  const rebuilt = recover(block.shards, block.k)
  block.shards.length = block.k
  block.isWhole = true
  frame.wholeBlocks++
  frame.amissUs = isAmiss(frame) ? (frame.amissUs ?? nowUs) : undefined
  frame.firstWholeUs ??= nowUs
  frame.arrivalUs = nowUs
  return rebuilt
}

/** The concatenation of a whole frame's blocks, without their padding. */
export const dataOf = (frame: PendingFrame): Buffer => {
  const parts = frame.blocks
    .slice(0, frame.blockCount)
    .map(block => Buffer.concat(block!.shards as Uint8Array[]).subarray(0, block!.blockBytes))
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}
