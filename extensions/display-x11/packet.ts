// The X11 wire format as far as this host speaks it: requests out, set-up answer and packets in. Pure.

/** Everything that is sent is little-endian. */
const littleEndian = 0x6c
/** More than any answer that is asked for here. */
const packetLimit = 4 << 20

const padded = (length: number): number => (length + 3) & ~3

export const pad = (bytes: Uint8Array): Buffer => {
  const out = Buffer.alloc(padded(bytes.length))
  out.set(bytes)
  return out
}

/** The numbers as 32-bit words, signed or not. */
export const words = (...values: number[]): Buffer => {
  const out = Buffer.alloc(values.length * 4)
  values.forEach((value, i) => void out.writeInt32LE(value | 0, i * 4))
  return out
}

/** The numbers as 16-bit words, signed or not. */
export const shorts = (...values: number[]): Buffer => {
  const out = Buffer.alloc(values.length * 2)
  values.forEach((value, i) => void out.writeUInt16LE(value & 0xffff, i * 2))
  return out
}

/** The first bytes of a connection. */
export function encodeSetup(cookie: Uint8Array): Buffer {
  const name = Buffer.from('MIT-MAGIC-COOKIE-1', 'latin1')
  return Buffer.concat([
    Buffer.from([littleEndian, 0]),
    shorts(11, 0, name.length, cookie.length, 0),
    pad(name),
    pad(cookie),
  ])
}

/** A request; longer ones than 256 KiB would need an extension of the protocol. */
export function encodeRequest(opcode: number, data: number, body: Uint8Array): Buffer {
  const length = 1 + padded(body.length) / 4
  if (length > 0xffff) throw new RangeError(`a request of ${body.length} bytes is too long`)
  return Buffer.concat([Buffer.from([opcode, data]), shorts(length), pad(body)])
}

export interface Setup {
  readonly resourceBase: number
  readonly resourceMask: number
  readonly root: number
  readonly rootDepth: number
  /** The size of the screen when the connection was made, pixels. */
  readonly width: number
  readonly height: number
}

/** Reads the answer to the set-up: undefined while it is not whole; throws what the server says against it. */
export function takeSetup(bytes: Buffer): { setup: Setup; rest: Buffer } | undefined {
  if (bytes.length < 8) return undefined
  const total = 8 + bytes.readUInt16LE(6) * 4
  if (bytes.length < total) return undefined
  if (bytes[0] !== 1) {
    const reason = bytes.toString('latin1', 8, Math.min(total, 8 + bytes[1]!)).trim()
    throw new Error(`the X server refuses the connection: ${reason || 'no reason given'}`)
  }
  if (total < 40) throw new Error('the X server answers with a set-up that is too short')
  const screen = 40 + padded(bytes.readUInt16LE(24)) + bytes[29]! * 8
  if (bytes[28] === 0 || screen + 40 > total) throw new Error('the X server says that it has no screen')
  return {
    rest: bytes.subarray(total),
    setup: {
      resourceBase: bytes.readUInt32LE(12),
      resourceMask: bytes.readUInt32LE(16),
      root: bytes.readUInt32LE(screen),
      rootDepth: bytes[screen + 38]!,
      width: bytes.readUInt16LE(screen + 20),
      height: bytes.readUInt16LE(screen + 22),
    },
  }
}

export type Packet =
  | { readonly type: 'reply'; readonly sequence: number; readonly bytes: Buffer }
  | {
      readonly type: 'error'
      readonly sequence: number
      readonly code: number
      readonly major: number
      readonly minor: number
    }
  | { readonly type: 'event' }

const genericEvent = 35

/** Reads the next packet; undefined while it is not whole; throws where it is longer than anything asked for. */
export function takePacket(bytes: Buffer): { packet: Packet; rest: Buffer } | undefined {
  if (bytes.length < 32) return undefined
  const kind = bytes[0]! & 0x7f
  const hasTail = kind === 1 || kind === genericEvent
  const total = 32 + (hasTail ? bytes.readUInt32LE(4) * 4 : 0)
  if (total > packetLimit) throw new Error(`the X server sends a packet of ${total} bytes`)
  if (bytes.length < total) return undefined
  const sequence = bytes.readUInt16LE(2)
  const rest = bytes.subarray(total)
  if (kind === 1) return { packet: { type: 'reply', sequence, bytes: bytes.subarray(0, total) }, rest }
  if (kind !== 0) return { packet: { type: 'event' }, rest }
  const error = { code: bytes[1]!, major: bytes[10]!, minor: bytes.readUInt16LE(8) }
  return { packet: { type: 'error', sequence, ...error }, rest }
}
