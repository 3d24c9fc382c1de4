// Writes H.264 and Opus into a Matroska file, each frame at the time at which its picture was taken.
import { closeSync, openSync, writeSync } from 'node:fs'

/** 0.1 ms: a block's 16-bit time then spans 3.2 s of a cluster. */
const timestampScaleNs = 100_000
/** A cluster ends at a keyframe, or after this many ticks, or bytes. */
const clusterTicks = 10_000
const clusterBytes = 1 << 20

const idBytes = (id: number): Buffer => {
  const hex = id.toString(16)
  return Buffer.from(hex.length % 2 ? `0${hex}` : hex, 'hex')
}
/** A size in 8 bytes: it may be patched later. */
const sizeBytes = (size: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(size) | (1n << 56n))
  return bytes
}
/** One EBML element. */
const element = (id: number, ...contents: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(contents)
  return Buffer.concat([idBytes(id), sizeBytes(body.length), body])
}
const unsigned = (id: number, value: number): Buffer => {
  const body = Buffer.alloc(8)
  body.writeBigUInt64BE(BigInt(value))
  return element(id, body)
}
const text = (id: number, value: string): Buffer => element(id, Buffer.from(value))
const float = (id: number, value: number): Buffer => {
  const body = Buffer.alloc(8)
  body.writeDoubleBE(value)
  return element(id, body)
}

export interface VideoTrack {
  readonly width: number
  readonly height: number
  readonly hz: number
  /** AVCDecoderConfigurationRecord. */
  readonly configuration: Buffer
}
export interface AudioTrack {
  readonly channels: number
  /** Samples per second. */
  readonly rate: number
}

export interface Recording {
  /** A frame as length-prefixed NAL units; `captureUs` on the clock of all calls. */
  video(data: Buffer, captureUs: number, isKeyframe: boolean): void
  /** An Opus packet; left out when it is older than the first frame. */
  audio(data: Buffer, captureUs: number): void
  /** Writes what is pending, and the duration and mean frame rate that were measured. */
  close(): void
}

/** Streams, coupled ones among them, and where each channel lies in them: what family 1 of RFC 7845 (5.1.1.2) fixes. */
const surround: Readonly<Record<number, readonly number[]>> = {
  6: [4, 2, 0, 4, 1, 2, 3, 5],
  8: [5, 3, 0, 6, 1, 2, 3, 4, 5, 7],
}

/** The head of RFC 7845, 5.1. No samples are skipped at the start: a recording begins in the middle of the sound. */
const opusHead = ({ channels, rate }: AudioTrack): Buffer => {
  const head = Buffer.alloc(19)
  head.write('OpusHead')
  head[8] = 1
  head[9] = channels
  head.writeUInt32LE(rate, 12)
  const mapping = surround[channels]
  if (channels <= 2 || !mapping) return head
  head[18] = 1
  return Buffer.concat([head, Buffer.from(mapping)])
}

const tracks = (video: VideoTrack, audio: AudioTrack | undefined): Buffer[] => {
  const picture = element(0xe0, unsigned(0xb0, video.width), unsigned(0xba, video.height))
  const common = (number: number, type: number) => [
    unsigned(0xd7, number),
    unsigned(0x73c5, number),
    unsigned(0x83, type),
    unsigned(0x9c, 0),
  ]
  const list = [
    element(
      0xae,
      // The frame duration stands first, at a known place, to be patched with what was measured.
      unsigned(0x23e383, Math.round(1e9 / video.hz)),
      ...common(1, 1),
      text(0x86, 'V_MPEG4/ISO/AVC'),
      element(0x63a2, video.configuration),
      picture,
    ),
  ]
  if (audio) {
    const sound = element(0xe1, float(0xb5, audio.rate), unsigned(0x9f, audio.channels))
    list.push(element(0xae, ...common(2, 2), text(0x86, 'A_OPUS'), element(0x63a2, opusHead(audio)), sound))
  }
  return list
}

/** Creates the file and writes its head; times of frames before the first one are taken for the first one's. */
export const createRecording = (path: string, video: VideoTrack, audio?: AudioTrack): Recording => {
  const file = openSync(path, 'w')
  let position = 0
  const write = (bytes: Buffer) => {
    position += writeSync(file, bytes, 0, bytes.length, position)
  }
  const patch = (bytes: Buffer, at: number) => writeSync(file, bytes, 0, bytes.length, at)

  write(
    element(
      0x1a45dfa3,
      unsigned(0x4286, 1),
      unsigned(0x42f7, 1),
      unsigned(0x42f2, 4),
      unsigned(0x42f3, 8),
      text(0x4282, 'matroska'),
      unsigned(0x4287, 4),
      unsigned(0x4285, 2),
    ),
  )
  // Unknown until the end: a recording that is cut short is still readable.
  write(Buffer.concat([idBytes(0x18538067), Buffer.from('01ffffffffffffff', 'hex')]))
  const segmentStart = position
  const info = [unsigned(0x2ad7b1, timestampScaleNs), text(0x4d80, 'svc-viewer'), text(0x5741, 'svc-viewer')]
  const durationAt = position + 12 + Buffer.concat(info).length + 2 + 8
  write(element(0x1549a966, ...info, float(0x4489, 0)))
  // Tracks (12 bytes of id and size), TrackEntry (9), DefaultDuration (11), then its value.
  const frameDurationAt = position + 12 + 9 + 11
  write(element(0x1654ae6b, ...tracks(video, audio)))

  let originUs: number | undefined
  let blocks: Buffer[] = []
  let blockBytes = 0
  let clusterAt = 0
  let lastVideo = 0
  let lastTick = 0
  let frames = 0

  const flush = () => {
    if (blocks.length > 0) write(element(0x1f43b675, unsigned(0xe7, clusterAt), ...blocks))
    blocks = []
    blockBytes = 0
  }
  const add = (track: number, data: Buffer, captureUs: number, isKeyframe: boolean): number => {
    originUs ??= captureUs
    const tick = Math.max(0, Math.round((captureUs - originUs) / (timestampScaleNs / 1000)))
    const isNewCluster =
      blocks.length === 0 ||
      (track === 1 && isKeyframe) ||
      blockBytes > clusterBytes ||
      Math.abs(tick - clusterAt) > clusterTicks
    if (isNewCluster) {
      flush()
      clusterAt = tick
    }
    const head = Buffer.alloc(4)
    head[0] = 0x80 | track
    head.writeInt16BE(tick - clusterAt, 1)
    head[3] = isKeyframe ? 0x80 : 0
    blocks.push(element(0xa3, head, data))
    blockBytes += data.length
    lastTick = Math.max(lastTick, tick)
    return tick
  }

  return {
    video: (data, captureUs, isKeyframe) => {
      lastVideo = add(1, data, captureUs, isKeyframe)
      frames++
    },
    // What was heard before the first picture has no place in the file.
    audio: (data, captureUs) => {
      if (originUs !== undefined && captureUs >= originUs) add(2, data, captureUs, true)
    },
    close: () => {
      flush()
      const value = Buffer.alloc(8)
      const frameTicks = frames > 1 ? lastVideo / (frames - 1) : 1e9 / video.hz / timestampScaleNs
      value.writeDoubleBE(lastTick + frameTicks)
      patch(value, durationAt)
      if (frames > 1 && lastVideo > 0) {
        value.writeBigUInt64BE(BigInt(Math.round(frameTicks * timestampScaleNs)))
        patch(value, frameDurationAt)
      }
      patch(sizeBytes(position - segmentStart), segmentStart - 8)
      closeSync(file)
    },
  }
}
