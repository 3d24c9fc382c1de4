// What one session has measured so far, in one copied record.
import type { AudioAssembler } from './audio-assembler.ts'
import type { FrameAssembler } from './frame-assembler.ts'
import type { Started } from './host-message.ts'
import type { MediaLink } from './media-link.ts'

/** Counts since the session's start; times in the unit of the name. */
export interface SessionStats {
  readonly codec: string
  /** Frames given out in order. */
  readonly frames: number
  readonly keyframes: number
  /** Frames that went on after a loss without a keyframe. */
  readonly recoveries: number
  /** How often the host was asked to mend a loss. */
  readonly requests: number
  /** Frames whose picture repeats the one before. */
  readonly repeats: number
  /** Video datagrams that never came. */
  readonly lostPackets: number
  /** Video shards rebuilt from parity. */
  readonly recoveredPackets: number
  /** Frames that could not be completed. */
  readonly lostFrames: number
  /** Whole frames that were of no use: withheld until a keyframe, or thrown away by a slow consumer. */
  readonly droppedFrames: number
  readonly videoPackets: number
  readonly audioPackets: number
  readonly lostAudioPackets: number
  readonly recoveredAudioPackets: number
  /** Datagrams that came after a later one. */
  readonly reordered: number
  readonly duplicates: number
  /** Datagrams dropped unopened: foreign, too old or forged. */
  readonly rejected: number
  /** Authentic payloads that break the protocol's rules. */
  readonly malformed: number
  /** UDP payload received. */
  readonly bytes: number
  /** From `started` to the first frame given out; undefined before it. */
  readonly firstFrameMs: number | undefined
  /** Longest time between two frames given out. */
  readonly maxFrameGapMs: number
  /** Smallest round trip of the last 8 pings; undefined before the first pong. */
  readonly rttUs: number | undefined
}

export interface Measured {
  readonly openedUs: number
  readonly started: Started
  readonly link: MediaLink
  readonly assembler: FrameAssembler
  readonly audio: AudioAssembler
  readonly progress: {
    readonly firstFrameUs: number | undefined
    readonly maxGapUs: number
    readonly overflowed: number
    readonly requests: number
  }
}

export const sessionStats = ({
  openedUs,
  started,
  link,
  assembler,
  audio,
  progress,
}: Measured): SessionStats => ({
  codec: started.codec,
  frames: assembler.counts.frames,
  keyframes: assembler.counts.keyframes,
  recoveries: assembler.counts.recoveries,
  requests: progress.requests,
  repeats: assembler.counts.repeats,
  lostPackets: link.lostVideo,
  recoveredPackets: assembler.counts.recovered,
  lostFrames: assembler.counts.lostFrames,
  droppedFrames: assembler.counts.droppedFrames + progress.overflowed,
  videoPackets: link.counts.video,
  audioPackets: audio.counts.packets,
  lostAudioPackets: audio.counts.lost,
  recoveredAudioPackets: audio.counts.recovered,
  reordered: link.counts.reordered,
  duplicates: link.counts.duplicates,
  rejected: link.counts.rejected,
  malformed: assembler.counts.malformed + audio.counts.malformed,
  bytes: link.counts.bytes,
  firstFrameMs: progress.firstFrameUs === undefined ? undefined : (progress.firstFrameUs - openedUs) / 1000,
  maxFrameGapMs: progress.maxGapUs / 1000,
  rttUs: link.clock.rttUs,
})
