// Puts video frames together from shards, mends them by parity and gives them out in order: PROTOCOL.md, 5.2, 5.3.
import { recover } from './reed-solomon.ts'
import { parseVideoPayload, type VideoPayload, videoFlags } from './video-payload.ts'

/** How long a block of a later frame may be complete before an incomplete frame counts as lost, microseconds. */
export const lossDelayUs = 40_000
/** Arrival of the frame this many later makes an incomplete frame lost. */
export const lossDistance = 8

/** One coded frame: an Annex B access unit (h264, hevc) or a temporal unit in OBU form (av1). */
export interface VideoFrame {
  /** Number within the epoch. */
  readonly frame: number
  readonly data: Buffer
  /** Can be decoded without earlier frames. */
  readonly isKeyframe: boolean
  /** Its picture's content repeats the frame before. */
  readonly isRepeat: boolean
  /** Low 8 bits of the mode's generation; a new mode has a new one. */
  readonly generation: number
  /** When the picture was taken: host's monotonic clock, microseconds. */
  readonly captureUs: number
  /** When its last needed datagram arrived: this client's monotonic clock, microseconds. */
  readonly arrivalUs: number
}

export interface AssemblerCounts {
  /** Frames given out. */
  frames: number
  keyframes: number
  repeats: number
  /** Data shards that were rebuilt from parity. */
  recovered: number
  /** Frames that never became whole. */
  lostFrames: number
  /** Whole frames withheld because an earlier one was lost and no keyframe had come yet. */
  droppedFrames: number
  /** Authentic payloads that break a rule of section 5.1, or contradict an earlier shard of their block. */
  malformed: number
  /** Newest frame that became whole, or -1. */
  newestWhole: number
}

export interface FrameAssembler {
  /** Takes an opened payload that arrived at `nowUs`; never throws. Gives the frames that are now due, in order. */
  push(payload: Buffer, nowUs: number): VideoFrame[]
  /** Applies the loss rule's delay. */
  tick(nowUs: number): VideoFrame[]
  /** When `tick` may have something to do, microseconds; undefined: not before another payload. */
  readonly deadlineUs: number | undefined
  /** The caller has thrown frames away: gives none out before the next keyframe. */
  skipToKeyframe(): void
  /** Nothing can be given out before a keyframe comes: the client asks for one. */
  readonly needsKeyframe: boolean
  readonly counts: Readonly<AssemblerCounts>
  /** Bytes of shards held for frames that are not out yet. */
  readonly heldBytes: number
}

interface Block {
  readonly k: number
  readonly m: number
  readonly blockBytes: number
  readonly shards: (Buffer | Uint8Array | undefined)[]
  arrived: number
  isWhole: boolean
}
interface Pending {
  readonly blocks: (Block | undefined)[]
  readonly generation: number
  readonly captureUs: number
  flags: number
  /** Known once the block with the last-block flag has come. */
  blockCount: number | undefined
  wholeBlocks: number
  /** When a block of it first became whole. */
  firstWholeUs: number | undefined
  arrivalUs: number
  bytes: number
}

/**
 * `maxHeldBytes` bounds the memory that a hostile host can claim: beyond it the oldest incomplete frame is given up.
 * At most `lossDistance` frames are held at a time.
 */
export const createFrameAssembler = (maxHeldBytes = 32 * 1024 * 1024): FrameAssembler => {
  const pending = new Map<number, Pending>()
  const counts: AssemblerCounts = {
    frames: 0,
    keyframes: 0,
    repeats: 0,
    recovered: 0,
    lostFrames: 0,
    droppedFrames: 0,
    malformed: 0,
    newestWhole: -1,
  }
  let next = 0
  let needsKeyframe = true
  let heldBytes = 0

  const isWhole = (frame: Pending) => frame.blockCount !== undefined && frame.wholeBlocks === frame.blockCount

  const forget = (number: number) => {
    heldBytes -= pending.get(number)?.bytes ?? 0
    pending.delete(number)
  }

  const assemble = (number: number, frame: Pending): VideoFrame => {
    const parts: Uint8Array[] = []
    for (const block of frame.blocks.slice(0, frame.blockCount)) {
      const data = Buffer.concat(block!.shards.slice(0, block!.k) as Uint8Array[])
      parts.push(data.subarray(0, block!.blockBytes))
    }
    const isKeyframe = (frame.flags & videoFlags.keyframe) !== 0
    const isRepeat = (frame.flags & videoFlags.repeat) !== 0
    return {
      frame: number,
      data: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts),
      isKeyframe,
      isRepeat,
      generation: frame.generation,
      captureUs: frame.captureUs,
      arrivalUs: frame.arrivalUs,
    }
  }

  const giveUp = () => {
    forget(next)
    next++
    counts.lostFrames++
    needsKeyframe = true
  }

  /** Gives out or drops every whole frame at the front; then leaps to a whole keyframe if only that can go on. */
  const drain = (out: VideoFrame[]) => {
    for (;;) {
      const front = pending.get(next)
      if (front && isWhole(front)) {
        if (needsKeyframe && !(front.flags & videoFlags.keyframe)) counts.droppedFrames++
        else {
          const frame = assemble(next, front)
          out.push(frame)
          needsKeyframe = false
          counts.frames++
          if (frame.isKeyframe) counts.keyframes++
          if (frame.isRepeat) counts.repeats++
        }
        forget(next)
        next++
        continue
      }
      if (!needsKeyframe) return
      const keyframe = [...pending].find(([, frame]) => isWhole(frame) && frame.flags & videoFlags.keyframe)
      if (!keyframe) return
      while (next < keyframe[0]) {
        const skipped = pending.get(next)
        if (skipped && isWhole(skipped)) {
          counts.droppedFrames++
          forget(next)
          next++
        } else giveUp()
      }
    }
  }

  const oldestBlockUs = (): number | undefined => {
    let oldest: number | undefined
    for (const [number, frame] of pending) {
      if (number === next || frame.firstWholeUs === undefined) continue
      if (oldest === undefined || frame.firstWholeUs < oldest) oldest = frame.firstWholeUs
    }
    return oldest
  }

  const tick = (nowUs: number): VideoFrame[] => {
    const out: VideoFrame[] = []
    for (;;) {
      const oldest = oldestBlockUs()
      if (oldest === undefined || nowUs - oldest < lossDelayUs) return out
      giveUp()
      drain(out)
    }
  }

  /** The frame `lossDistance` later has arrived: everything older is lost. */
  const leap = (number: number, out: VideoFrame[]) => {
    const first = number - lossDistance + 1
    while (next < first && pending.size > 0) {
      giveUp()
      drain(out)
    }
    if (next < first) {
      counts.lostFrames += first - next
      next = first
      needsKeyframe = true
    }
  }

  const blockFor = (frame: Pending, part: VideoPayload): Block | undefined => {
    const isLast = (part.flags & videoFlags.lastBlock) !== 0
    if (frame.blockCount === undefined ? isLast && frame.blocks.length > part.block + 1 : false)
      return undefined
    if (frame.blockCount !== undefined) {
      if (part.block >= frame.blockCount || isLast !== (part.block === frame.blockCount - 1)) return undefined
    }
    const known = frame.blocks[part.block]
    if (known) {
      return known.k === part.k && known.m === part.m && known.blockBytes === part.blockBytes
        ? known
        : undefined
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

  const add = (frame: Pending, block: Block, part: VideoPayload, nowUs: number) => {
    if (block.isWhole || block.shards[part.idx]) return
    block.shards[part.idx] = part.shard
    block.arrived++
    // A small allowance for the bookkeeping, so that tiny shards are not free.
    frame.bytes += part.shard.length + 64
    heldBytes += part.shard.length + 64
    if (block.arrived < block.k) return
    counts.recovered += recover(block.shards, block.k)
    block.shards.length = block.k
    block.isWhole = true
    frame.wholeBlocks++
    frame.firstWholeUs ??= nowUs
    frame.arrivalUs = nowUs
  }

  return {
    get needsKeyframe() {
      return needsKeyframe
    },
    get heldBytes() {
      return heldBytes
    },
    get deadlineUs() {
      const oldest = oldestBlockUs()
      return oldest === undefined ? undefined : oldest + lossDelayUs
    },
    counts,
    tick,
    skipToKeyframe: () => {
      needsKeyframe = true
    },
    push: (payload, nowUs) => {
      const out = tick(nowUs)
      const part = parseVideoPayload(payload)
      if (!part) counts.malformed++
      if (!part || part.frame < next) return out
      leap(part.frame, out)
      if (part.frame < next) return out
      let frame = pending.get(part.frame)
      if (!frame) {
        frame = {
          blocks: [],
          generation: part.generation,
          captureUs: part.captureUs,
          flags: 0,
          blockCount: undefined,
          wholeBlocks: 0,
          firstWholeUs: undefined,
          arrivalUs: nowUs,
          bytes: 0,
        }
        pending.set(part.frame, frame)
      }
      const block = blockFor(frame, part)
      if (!block) {
        counts.malformed++
        return out
      }
      frame.flags |= part.flags
      add(frame, block, part, nowUs)
      if (isWhole(frame) && part.frame > counts.newestWhole) counts.newestWhole = part.frame
      drain(out)
      while (heldBytes > maxHeldBytes && pending.size > 0) {
        giveUp()
        drain(out)
      }
      return out
    },
  }
}
