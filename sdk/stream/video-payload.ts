// The payload of a video datagram: which shard of which block of which frame. PROTOCOL.md, section 5.1.

export const videoHeaderBytes = 24
/** Most data shards, and most parity shards, of one block. */
export const maxShards = 50

export const videoFlags = { keyframe: 0x01, lastBlock: 0x02, repeat: 0x04, recovers: 0x08 } as const

export interface VideoPayload {
  readonly frame: number
  readonly block: number
  readonly flags: number
  readonly idx: number
  readonly k: number
  readonly m: number
  /** Low 8 bits of the mode's generation. */
  readonly generation: number
  readonly blockBytes: number
  /** Host's monotonic clock, microseconds. */
  readonly captureUs: number
  readonly shard: Buffer
}

/** Undefined for whatever breaks a rule of section 5.1; such a datagram is dropped. */
export const parseVideoPayload = (payload: Buffer): VideoPayload | undefined => {
  if (payload.length <= videoHeaderBytes) return undefined
  const idx = payload[6]!
  const k = payload[7]!
  const m = payload[8]!
  const blockBytes = payload.readUInt32BE(12)
  if (k < 1 || k > maxShards || m > maxShards || idx >= k + m || blockBytes < 1) return undefined
  if (payload.length - videoHeaderBytes !== Math.ceil(blockBytes / k)) return undefined
  return {
    frame: payload.readUInt32BE(0),
    block: payload[4]!,
    flags: payload[5]!,
    idx,
    k,
    m,
    generation: payload[9]!,
    blockBytes,
    captureUs: Number(payload.readBigUInt64BE(16)),
    shard: payload.subarray(videoHeaderBytes),
  }
}
