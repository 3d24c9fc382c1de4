// Puts video frames together from shards, mends them by parity and gives them out in order: PROTOCOL.md, 5.2, 5.3.
import { addShard, beginFrame, dataOf, isWhole, type PendingFrame } from './pending-frame.ts'
import { parseVideoPayload, videoFlags } from './video-payload.ts'

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
  /** Frames before it are missing, and it refers to none of them: only to such as were given out. */
  readonly isRecovery: boolean
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
  /** Frames that went on after a loss without a keyframe. */
  recoveries: number
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

/** The decoder has all frames before `firstLost`, or, without one, nothing that could be built upon. */
export interface Lacking {
  readonly firstLost: number | undefined
}

export interface FrameAssembler {
  /** Takes an opened payload that arrived at `nowUs`; never throws. Gives the frames that are now due, in order. */
  push(payload: Buffer, nowUs: number): VideoFrame[]
  /** The host says that all frames up to this one have left. Gives the frames that are now due, in order. */
  announce(frame: number, nowUs: number): VideoFrame[]
  /** Applies the loss rule's delay. */
  tick(nowUs: number): VideoFrame[]
  /** When `tick` may have something to do, microseconds; undefined: not before another payload. */
  readonly deadlineUs: number | undefined
  /** The caller has thrown frames away: gives none out before the next keyframe. */
  skipToKeyframe(): void
  /** Nothing can be given out before a keyframe comes, or a frame that refers past the loss. */
  readonly needsKeyframe: boolean
  /**
   * How long something sent later may have been here before the host is asked to go on without an incomplete frame,
   * microseconds: longer than the path reorders. At most `lossDelayUs`, which it is at first.
   */
  patienceUs: number
  /** What the host should be asked for now; undefined while nothing is amiss. */
  lacking(nowUs: number): Lacking | undefined
  readonly counts: Readonly<AssemblerCounts>
  /** Bytes of shards held for frames that are not out yet. */
  readonly heldBytes: number
}

/**
 * `maxHeldBytes` bounds the memory that a hostile host can claim: beyond it the oldest incomplete frame is given up.
 * At most `lossDistance` frames are held at a time.
 */
export const createFrameAssembler = (maxHeldBytes = 32 * 1024 * 1024): FrameAssembler => {
  const pending = new Map<number, PendingFrame>()
  const counts: AssemblerCounts = {
    frames: 0,
    keyframes: 0,
    recoveries: 0,
    repeats: 0,
    recovered: 0,
    lostFrames: 0,
    droppedFrames: 0,
    malformed: 0,
    newestWhole: -1,
  }
  let next = 0
  let needsKeyframe = true
  /** First frame that the decoder lacks, while it has all before that one. */
  let firstLost: number | undefined
  let patienceUs = lossDelayUs
  /** The frame at the front when patience last ran out: from then on only `lossDelayUs` is waited for. */
  let sincePatience = -1
  let heldBytes = 0
  /** All frames up to this one have left the host, as was heard at this time. */
  let announced = { frame: -1, atUs: 0 }

  const forget = (number: number) => {
    heldBytes -= pending.get(number)?.bytes ?? 0
    pending.delete(number)
  }

  const miss = (number: number) => {
    if (!needsKeyframe) firstLost = number
    needsKeyframe = true
  }

  /** Whether the decoder can go on with this frame although earlier ones are missing. */
  const isEntry = (frame: PendingFrame): boolean =>
    isWhole(frame) &&
    ((frame.flags & videoFlags.keyframe) !== 0 ||
      ((frame.flags & videoFlags.recovers) !== 0 && (firstLost !== undefined || !needsKeyframe)))

  const giveUp = () => {
    forget(next)
    next++
    counts.lostFrames++
    miss(next - 1)
  }

  /**
   * Gives out or drops every whole frame at the front; then leaps to one that the decoder can go on with if only that
   * will do, or if the frame at the front `isOverdue`.
   */
  const drain = (out: VideoFrame[], isOverdue = false) => {
    let mayLeap = isOverdue
    for (;;) {
      const front = pending.get(next)
      if (front && isWhole(front)) {
        if (needsKeyframe && !isEntry(front)) counts.droppedFrames++
        else {
          const frame = {
            frame: next,
            data: dataOf(front),
            isKeyframe: (front.flags & videoFlags.keyframe) !== 0,
            isRecovery: needsKeyframe && (front.flags & videoFlags.keyframe) === 0,
            isRepeat: (front.flags & videoFlags.repeat) !== 0,
            generation: front.generation,
            captureUs: front.captureUs,
            arrivalUs: front.arrivalUs,
          }
          out.push(frame)
          needsKeyframe = false
          firstLost = undefined
          counts.frames++
          if (frame.isKeyframe) counts.keyframes++
          if (frame.isRecovery) counts.recoveries++
          if (frame.isRepeat) counts.repeats++
        }
        forget(next)
        next++
        continue
      }
      if (!needsKeyframe && !mayLeap) return
      mayLeap = false
      const entry = [...pending].find(([, frame]) => isEntry(frame))
      if (!entry) return
      while (next < entry[0]) {
        const skipped = pending.get(next)
        if (skipped && isWhole(skipped)) {
          counts.droppedFrames++
          forget(next)
          next++
        } else giveUp()
      }
    }
  }

  /** Since when the frame at the front is overdue: the least of `timeOf` over later frames, and the announcement. */
  const overtakenUs = (timeOf: (later: PendingFrame) => number | undefined): number | undefined => {
    let oldest = announced.frame >= next ? announced.atUs : undefined
    for (const [number, frame] of pending) {
      const at = number === next ? undefined : timeOf(frame)
      if (at !== undefined && (oldest === undefined || at < oldest)) oldest = at
    }
    return oldest
  }
  /** By the loss rule. */
  const overdueUs = () => overtakenUs(later => later.firstWholeUs)
  /** By all that tells of it. */
  const amissUs = (): number | undefined => {
    const own = pending.get(next)?.amissUs
    const overtaken = overtakenUs(later => later.begunUs)
    return own === undefined || overtaken === undefined ? (own ?? overtaken) : Math.min(own, overtaken)
  }

  const tick = (nowUs: number): VideoFrame[] => {
    const out: VideoFrame[] = []
    for (;;) {
      const amiss = amissUs()
      if (amiss === undefined || nowUs - amiss < patienceUs) return out
      const overdue = overdueUs()
      const before = next
      if (overdue !== undefined && nowUs - overdue >= lossDelayUs) {
        giveUp()
        drain(out)
      } else drain(out, true)
      if (next === before) return out
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
      miss(next)
      next = first
    }
  }

  return {
    get needsKeyframe() {
      return needsKeyframe
    },
    get heldBytes() {
      return heldBytes
    },
    get deadlineUs() {
      if (sincePatience !== next) {
        const amiss = amissUs()
        return amiss === undefined ? undefined : amiss + patienceUs
      }
      const overdue = overdueUs()
      return overdue === undefined ? undefined : overdue + lossDelayUs
    },
    get patienceUs() {
      return patienceUs
    },
    set patienceUs(us: number) {
      patienceUs = Math.min(lossDelayUs, Math.max(0, us))
    },
    lacking: nowUs => {
      if (needsKeyframe) {
        const isBegun = counts.frames + counts.lostFrames + counts.droppedFrames > 0
        return isBegun ? { firstLost } : undefined
      }
      const amiss = amissUs()
      if (amiss === undefined || nowUs - amiss < patienceUs) return undefined
      sincePatience = next
      return { firstLost: next }
    },
    counts,
    tick,
    announce: (frame, nowUs) => {
      const out = tick(nowUs)
      if (frame <= announced.frame || frame < next) return out
      announced = { frame, atUs: nowUs }
      leap(frame, out)
      out.push(...tick(nowUs))
      return out
    },
    skipToKeyframe: () => {
      needsKeyframe = true
      firstLost = undefined
    },
    push: (payload, nowUs) => {
      const out = tick(nowUs)
      const part = parseVideoPayload(payload)
      if (!part) counts.malformed++
      if (!part || part.frame < next) return out
      leap(part.frame, out)
      if (part.frame < next) return out
      const frame = pending.get(part.frame) ?? beginFrame(part, nowUs)
      const heldBefore = frame.bytes
      const rebuilt = addShard(frame, part, nowUs)
      if (rebuilt === undefined) {
        counts.malformed++
        return out
      }
      pending.set(part.frame, frame)
      heldBytes += frame.bytes - heldBefore
      counts.recovered += rebuilt
      if (isWhole(frame) && part.frame > counts.newestWhole) counts.newestWhole = part.frame
      drain(out)
      out.push(...tick(nowUs))
      while (heldBytes > maxHeldBytes && pending.size > 0) {
        giveUp()
        drain(out)
      }
      return out
    },
  }
}
