// Puts groups of Opus packets together, mends them by parity and gives the packets out in order: PROTOCOL.md, 6.
import { parityOf, recover } from './reed-solomon.ts'

export const audioHeaderBytes = 20
/** Most packets of one group. */
export const maxGroupPackets = 16
/** How long a later packet waits for an earlier one, microseconds: sound that is later than this is no use. */
export const audioWaitUs = 60_000
/** Packets that may wait for an earlier one. */
export const maxWaiting = 64

/** One Opus packet. */
export interface AudioPacket {
  /** Number within the epoch; a gap is sound that was lost. */
  readonly packet: number
  readonly data: Buffer
  /** Of its first sample: host's monotonic clock, microseconds. */
  readonly captureUs: number
}

export interface AudioPayload {
  readonly packet: number
  readonly idx: number
  readonly k: number
  readonly m: number
  readonly captureUs: number
  readonly shard: Buffer
}

/** Undefined for whatever breaks a rule of section 6; such a datagram is dropped. */
export const parseAudioPayload = (payload: Buffer): AudioPayload | undefined => {
  if (payload.length < audioHeaderBytes) return undefined
  const idx = payload[4]!
  const k = payload[5]!
  const m = payload[6]!
  const bytes = payload.readUInt16BE(8)
  const shard = payload.subarray(audioHeaderBytes)
  // Beyond 256 shards the parity's coefficients would leave the field.
  if (k < 1 || k > maxGroupPackets || k + m > 256 || idx >= k + m) return undefined
  if (shard.length !== bytes || (idx >= k && bytes < 2)) return undefined
  return { packet: payload.readUInt32BE(0), idx, k, m, captureUs: Number(payload.readBigUInt64BE(12)), shard }
}

/** What parity is computed over: 16-bit length, the packet, zeros. */
const padded = (packet: Uint8Array, size: number): Buffer => {
  const shard = Buffer.alloc(size)
  shard.writeUInt16BE(packet.length, 0)
  shard.set(packet, 2)
  return shard
}

/** The parity shards of a group of packets; for a sender (a microphone) and for tests. */
export const audioParity = (packets: readonly Uint8Array[], m: number): Uint8Array[] => {
  const size = 2 + Math.max(...packets.map(packet => packet.length))
  return parityOf(
    packets.map(packet => padded(packet, size)),
    m,
  )
}

export interface AudioCounts {
  packets: number
  recovered: number
  lost: number
  malformed: number
}

export interface AudioAssembler {
  /** Takes an opened payload; never throws. Gives the packets that are now due, in order. */
  push(payload: Buffer, nowUs: number): AudioPacket[]
  readonly counts: Readonly<AudioCounts>
}

interface Group {
  readonly first: number
  readonly k: number
  readonly m: number
  readonly shards: (Buffer | undefined)[]
  arrived: number
  isMended: boolean
  parityCaptureUs: number | undefined
}

/** `frameMs` is the length of a packet in milliseconds, to time the packets that parity brings back. */
export const createAudioAssembler = (frameMs: number): AudioAssembler => {
  const groups = new Map<number, Group>()
  const waiting = new Map<number, AudioPacket & { readonly sinceUs: number }>()
  const counts: AudioCounts = { packets: 0, recovered: 0, lost: 0, malformed: 0 }
  let next: number | undefined

  const offer = (packet: AudioPacket, nowUs: number) => {
    if (next !== undefined && packet.packet < next) return
    if (!waiting.has(packet.packet)) waiting.set(packet.packet, { ...packet, sinceUs: nowUs })
  }

  const mend = (group: Group, nowUs: number) => {
    if (group.isMended || group.arrived < group.k) return
    group.isMended = true
    const size = group.shards.find((shard, i) => shard && i >= group.k)?.length
    if (size === undefined) return
    const shards = group.shards.map((shard, i) =>
      shard && i < group.k ? (shard.length + 2 <= size ? padded(shard, size) : undefined) : shard,
    )
    const wasThere = shards.slice(0, group.k).map(shard => shard !== undefined)
    // Parity of different sizes, or packets that do not fit it, contradict each other: nothing can be mended.
    if (shards.some((shard, i) => shard?.length !== size && group.shards[i])) return
    if (recover(shards, group.k) < 0) return
    for (let i = 0; i < group.k; i++) {
      if (wasThere[i]) continue
      const shard = Buffer.from(shards[i]!)
      const length = shard.readUInt16BE(0)
      if (length > size - 2) continue
      counts.recovered++
      const captureUs = (group.parityCaptureUs ?? 0) + i * frameMs * 1000
      offer({ packet: group.first + i, data: shard.subarray(2, 2 + length), captureUs }, nowUs)
    }
  }

  const drain = (nowUs: number): AudioPacket[] => {
    const out: AudioPacket[] = []
    for (;;) {
      if (waiting.size === 0) return out
      const found = next === undefined ? undefined : waiting.get(next)
      if (found && next !== undefined) {
        out.push({ packet: found.packet, data: found.data, captureUs: found.captureUs })
        waiting.delete(next)
        next++
        counts.packets++
        continue
      }
      const numbers = [...waiting.keys()]
      const oldest = Math.min(...numbers)
      const isLate = waiting.size > maxWaiting || nowUs - waiting.get(oldest)!.sinceUs >= audioWaitUs
      // Packets are numbered from 0 in each epoch; the first group's start is where sound begins for this client.
      if (next !== undefined && !isLate) return out
      if (next !== undefined) counts.lost += oldest - next
      next = oldest
    }
  }

  return {
    counts,
    push: (payload, nowUs) => {
      const part = parseAudioPayload(payload)
      if (!part) {
        counts.malformed++
        return drain(nowUs)
      }
      next ??= part.packet
      if (part.packet + part.k <= next) return drain(nowUs)
      let group = groups.get(part.packet)
      if (!group) {
        group = {
          first: part.packet,
          k: part.k,
          m: part.m,
          shards: new Array(part.k + part.m).fill(undefined),
          arrived: 0,
          isMended: false,
          parityCaptureUs: undefined,
        }
        groups.set(part.packet, group)
        for (const [first, old] of groups) {
          if (groups.size > maxGroupPackets || first + old.k <= next) groups.delete(first)
        }
      }
      if (group.k !== part.k || group.m !== part.m) {
        counts.malformed++
        return drain(nowUs)
      }
      if (!group.shards[part.idx]) {
        group.shards[part.idx] = part.shard
        group.arrived++
        if (part.idx < part.k) {
          offer({ packet: part.packet + part.idx, data: part.shard, captureUs: part.captureUs }, nowUs)
        } else group.parityCaptureUs ??= part.captureUs
        mend(group, nowUs)
      }
      return drain(nowUs)
    },
  }
}
