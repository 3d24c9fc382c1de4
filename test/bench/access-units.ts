// Coded pictures out of the datagrams that were heard, and when the last datagram of each arrived.
import { spawn } from 'node:child_process'
import { createOpener } from '../../sdk/stream/datagram.ts'
import { createFrameAssembler } from '../../sdk/stream/frame-assembler.ts'
import { type MediaKey, streams } from '../../sdk/stream/media-keys.ts'
import { parseVideoPayload } from '../../sdk/stream/video-payload.ts'
import type { Heard } from './tap.ts'

export interface AccessUnit {
  /** Annex B. */
  readonly data: Buffer
  /** Arrival of the last datagram that belongs to it, parity included: CLOCK_MONOTONIC, microseconds. */
  readonly lastUs: number
}

/** How a pipeline's video lies in its datagrams. */
export type Form = 'svc' | 'rtp' | 'ts'

const tsPacketBytes = 188
const videoPid = 0x100
const isVideoStart = (packet: Buffer) =>
  (packet.readUInt16BE(1) & 0x1fff) === videoPid && (packet[1]! & 0x40) !== 0

/** Whether a datagram is the last of a picture (RTP, bound) or holds the beginning of one (MPEG-TS). */
export function countsAsPicture(form: Form, datagram: Buffer): boolean {
  if (form === 'rtp') return (datagram[1]! & 0x80) !== 0
  if (form === 'svc') return datagram[3] === 1
  for (let at = 0; at + tsPacketBytes <= datagram.length; at += tsPacketBytes) {
    if (isVideoStart(datagram.subarray(at, at + tsPacketBytes))) return true
  }
  return false
}

const startCode = Buffer.from([0, 0, 0, 1])

/** RFC 6184: single units, aggregates (24) and fragments (28); one picture is what bears one timestamp. */
export function unitsOfRtp(heard: readonly Heard[]): AccessUnit[] {
  const units: AccessUnit[] = []
  let parts: Buffer[] = []
  let lastUs = 0
  let timestamp: number | undefined
  const finish = () => {
    if (parts.length) units.push({ data: Buffer.concat(parts), lastUs })
    parts = []
  }
  for (const { atUs, data } of heard) {
    if (data.readUInt32BE(4) !== timestamp) finish()
    timestamp = data.readUInt32BE(4)
    lastUs = atUs
    const payload = data.subarray(12 + 4 * (data[0]! & 15))
    const type = payload[0]! & 31
    if (type === 24) {
      for (let at = 1; at + 2 < payload.length; at += 2 + payload.readUInt16BE(at)) {
        parts.push(startCode, payload.subarray(at + 2, at + 2 + payload.readUInt16BE(at)))
      }
    } else if (type === 28) {
      if (payload[1]! & 0x80) {
        parts.push(startCode, Buffer.from([(payload[0]! & 0xe0) | (payload[1]! & 31)]))
      }
      parts.push(payload.subarray(2))
    } else parts.push(startCode, payload)
  }
  finish()
  return units
}

/** ISO 13818-1: one packetized elementary stream packet a picture, on the first video PID that ffmpeg gives. */
export function unitsOfTs(heard: readonly Heard[]): AccessUnit[] {
  const units: AccessUnit[] = []
  let parts: Buffer[] = []
  let lastUs = 0
  const finish = () => {
    const pes = Buffer.concat(parts)
    if (pes.length > 9) units.push({ data: pes.subarray(9 + pes[8]!), lastUs })
    parts = []
  }
  for (const { atUs, data } of heard) {
    for (let at = 0; at + tsPacketBytes <= data.length; at += tsPacketBytes) {
      const packet = data.subarray(at, at + tsPacketBytes)
      if ((packet.readUInt16BE(1) & 0x1fff) !== videoPid) continue
      if (isVideoStart(packet)) finish()
      const control = (packet[3]! >> 4) & 3
      if (control & 1) parts.push(packet.subarray(control & 2 ? 5 + packet[4]! : 4))
      lastUs = atUs
    }
  }
  finish()
  return units
}

/** Segmentation offload hands over runs of datagrams; each begins with the same version, stream, epoch and session. */
function* datagramsOf(data: Buffer): Generator<Buffer> {
  const mark = data.subarray(0, 3)
  for (let at = 0; at < data.length; ) {
    let next = data.indexOf(mark, at + 20)
    while (next >= 0 && data.compare(data, 4, 12, next + 4, next + 12) !== 0)
      next = data.indexOf(mark, next + 1)
    if (next < 0) next = data.length
    yield data.subarray(at, next)
    at = next
  }
}

/** The native plane's own form, opened with the session's key. */
export function unitsOfSvc(
  heard: readonly Heard[],
  keyOf: (session: Uint8Array, epoch: number) => MediaKey,
): AccessUnit[] {
  const assembler = createFrameAssembler()
  const lastUs = new Map<number, number>()
  const frames: { frame: number; data: Buffer }[] = []
  let opener: ReturnType<typeof createOpener> | undefined
  for (const { atUs, data } of heard) {
    for (const datagram of datagramsOf(data)) {
      if (datagram[0] !== (0x10 | streams.video)) continue
      const [session, epoch] = [datagram.subarray(4, 12), datagram[1]!]
      opener ??= createOpener({ session, epoch, stream: streams.video, key: keyOf(session, epoch) })
      const opened = opener.open(datagram)
      if (typeof opened === 'string') throw new Error(`a datagram that was heard cannot be opened: ${opened}`)
      const video = parseVideoPayload(opened.payload)
      if (video) lastUs.set(video.frame, atUs)
      frames.push(...assembler.push(opened.payload, atUs))
    }
  }
  return frames.map(({ frame, data }) => ({ data, lastUs: lastUs.get(frame)! }))
}

/** Brightness, 0 to 255, of the flipping corner in each picture, by decoding all of them. */
export async function cornerLevels(units: readonly AccessUnit[]): Promise<Buffer> {
  const filter = 'crop=64:64:iw-96:ih-96,scale=1:1:flags=area,format=gray'
  const args = ['-v', 'error', '-f', 'h264', '-i', '-', '-vf', filter, '-fps_mode', 'passthrough']
  const child = spawn('ffmpeg', [...args, '-f', 'rawvideo', '-'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const chunks: Buffer[] = []
  child.stdout.on('data', chunk => chunks.push(chunk))
  const closed = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => (code === 0 ? resolve() : reject(new Error(`ffmpeg ended with ${code}`))))
  })
  child.stdin.end(Buffer.concat(units.map(({ data }) => data)))
  await closed
  const levels = Buffer.concat(chunks)
  if (levels.length !== units.length) {
    throw new Error(`${units.length} pictures were heard, but ${levels.length} decoded`)
  }
  return levels
}
