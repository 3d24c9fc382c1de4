// The numbers of a run, as `--stats` writes them and as a person reads them.
import type { SessionStats } from 'svc-host/stream'

export interface Report {
  readonly frames: number
  readonly fps: number
  readonly width: number
  readonly height: number
  readonly codec: string
  readonly lost_packets: number
  readonly recovered_packets: number
  readonly lost_frames: number
  readonly dropped_frames: number
  readonly max_frame_gap_ms: number
  /** From the taking of the picture on the host to the arrival of its last datagram here. */
  readonly latency_ms: { readonly p50: number | null; readonly p99: number | null }
  readonly audio_packets: number
  readonly lost_audio_packets: number
  readonly recovered_audio_packets: number
  /** From the host's `started` to the first frame. */
  readonly time_to_first_frame_ms: number | null
  readonly keyframes: number
  readonly repeats: number
  readonly bytes: number
  readonly mbps: number
  readonly rtt_us: number | null
  readonly reordered: number
  readonly duplicates: number
  readonly rejected: number
  readonly malformed: number
  readonly seconds: number
  /** Why the session ended. */
  readonly ended: string
}

/** The value below which `share` of the sorted values lie; null of none. */
export const percentile = (sorted: readonly number[], share: number): number | null =>
  sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)]!

const round = (value: number, digits: number): number => Number(value.toFixed(digits))

export interface Measured {
  readonly stats: SessionStats
  readonly width: number
  readonly height: number
  /** First and last frame's arrival, microseconds. */
  readonly firstUs: number
  readonly lastUs: number
  readonly latenciesUs: readonly number[]
  readonly ended: string
}

export const report = ({ stats, width, height, firstUs, lastUs, latenciesUs, ended }: Measured): Report => {
  const seconds = (lastUs - firstUs) / 1e6
  const sorted = [...latenciesUs].sort((a, b) => a - b)
  const ms = (share: number) => {
    const value = percentile(sorted, share)
    return value === null ? null : round(value / 1000, 2)
  }
  return {
    frames: stats.frames,
    fps: seconds > 0 ? round((stats.frames - 1) / seconds, 2) : 0,
    width,
    height,
    codec: stats.codec,
    lost_packets: stats.lostPackets,
    recovered_packets: stats.recoveredPackets,
    lost_frames: stats.lostFrames,
    dropped_frames: stats.droppedFrames,
    max_frame_gap_ms: round(stats.maxFrameGapMs, 2),
    latency_ms: { p50: ms(0.5), p99: ms(0.99) },
    audio_packets: stats.audioPackets,
    lost_audio_packets: stats.lostAudioPackets,
    recovered_audio_packets: stats.recoveredAudioPackets,
    time_to_first_frame_ms: stats.firstFrameMs === undefined ? null : round(stats.firstFrameMs, 1),
    keyframes: stats.keyframes,
    repeats: stats.repeats,
    bytes: stats.bytes,
    mbps: seconds > 0 ? round((stats.bytes * 8) / 1e6 / seconds, 3) : 0,
    rtt_us: stats.rttUs === undefined ? null : Math.round(stats.rttUs),
    reordered: stats.reordered,
    duplicates: stats.duplicates,
    rejected: stats.rejected,
    malformed: stats.malformed,
    seconds: round(seconds, 3),
    ended,
  }
}

export const sentence = (r: Report): string =>
  `${r.frames} frames of ${r.width}x${r.height} ${r.codec} in ${r.seconds} s (${r.fps} fps, ${r.mbps} Mbit/s), ` +
  `${r.lost_frames} lost; packets: ${r.lost_packets} lost, ${r.recovered_packets} recovered; ` +
  `latency ${r.latency_ms.p50 ?? '?'} ms p50, ${r.latency_ms.p99 ?? '?'} ms p99`
