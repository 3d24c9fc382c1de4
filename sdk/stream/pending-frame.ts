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
  }
  frame.blocks[part.block] = block
  if (isLast) frame.blockCount = part.block + 1
  return block
}

/** Adds a shard; gives how many data shards parity has rebuilt by it, or undefined when it contradicts others. */
export const addShard = (frame: PendingFrame, part: VideoPayload, nowUs: number): number | undefined => {
  const block = blockOf(frame, part)
  if (!block) return undefined
  frame.flags |= part.flags
  if (block.isWhole || block.shards[part.idx]) return 0
  block.shards[part.idx] = part.shard
  block.arrived++
  frame.bytes += part.shard.length + bookkeepingBytes
  if (block.arrived < block.k) return 0
  const rebuilt = recover(block.shards, block.k)
  block.shards.length = block.k
  block.isWhole = true
  frame.wholeBlocks++
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
