// Packets of the bridge to code in another realm: a fixed head, then text; whatever does not fit is refused, never guessed.

/** What crosses as one piece. Numbers are unsigned 32 bit. */
export interface Packet {
  readonly kind: number
  /** Which extension's, as the host numbers them. */
  readonly cell: number
  /** Raised with each request; an answer repeats that of its request. */
  readonly seq: number
  /** In a request the time limit in milliseconds, in an answer the CPU time spent in microseconds. */
  readonly amount: number
  readonly text: string
}

const headBytes = 17

/** Bytes of text in one packet that comes out of a realm. */
export const packetLimitBytes = 1024 * 1024

export function encodePacket({ kind, cell, seq, amount, text }: Packet): Buffer {
  const length = Buffer.byteLength(text)
  const packet = Buffer.allocUnsafe(headBytes + length)
  packet.writeUInt32LE(length, 0)
  packet.writeUInt8(kind, 4)
  packet.writeUInt32LE(cell, 5)
  packet.writeUInt32LE(seq, 9)
  packet.writeUInt32LE(Math.min(amount, 0xffffffff), 13)
  packet.write(text, headBytes)
  return packet
}

/** Takes bytes as they come and gives whole packets; throws on a length over the limit, before anything is kept for it. */
export function createPacketReader(limitBytes = packetLimitBytes): (bytes: Uint8Array) => Packet[] {
  let parts: Uint8Array[] = []
  let have = 0
  let need = headBytes
  return bytes => {
    const packets: Packet[] = []
    parts.push(bytes)
    have += bytes.length
    while (have >= need) {
      const all =
        parts.length === 1 ? Buffer.from(parts[0]!.buffer, parts[0]!.byteOffset, have) : Buffer.concat(parts)
      parts = [all]
      const length = all.readUInt32LE(0)
      if (length > limitBytes)
        throw new Error(`a packet of ${length} bytes came over the bridge; ${limitBytes} are allowed`)
      need = headBytes + length
      if (have < need) break
      packets.push({
        kind: all.readUInt8(4),
        cell: all.readUInt32LE(5),
        seq: all.readUInt32LE(9),
        amount: all.readUInt32LE(13),
        text: all.toString('utf8', headBytes, need),
      })
      parts = [all.subarray(need)]
      have -= need
      need = headBytes
    }
    return packets
  }
}

/** Levels of nesting in what crosses. */
const depthLimit = 64

/** Parses JSON of a stranger: not deeper than is sane, and never with a key that would reach a prototype. */
export function parseStrict(text: string): unknown {
  let depth = 0
  let isInString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isInString) {
      if (code === 92) at += 1
      else if (code === 34) isInString = false
    } else if (code === 34) isInString = true
    else if (code === 91 || code === 123) {
      depth += 1
      if (depth > depthLimit) throw new Error(`data that crosses is nested over ${depthLimit} levels deep`)
    } else if (code === 93 || code === 125) depth -= 1
  }
  const isSuspect = text.includes('__proto__') || /\\u005f/i.test(text)
  return isSuspect
    ? JSON.parse(text, (key, value) => (key === '__proto__' ? undefined : value))
    : JSON.parse(text)
}
