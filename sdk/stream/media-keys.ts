// Keys of the media streams, taken from the TLS exporter: PROTOCOL.md, section 3.
import { StreamError } from './error.ts'

/** Numbers of the streams in a datagram's header and in the keys' context. */
export const streams = { video: 1, audio: 2, input: 3, path: 4 } as const
export type StreamNumber = (typeof streams)[keyof typeof streams]

/** 1: host to client. 2: client to host. */
export const directions = { toClient: 1, toHost: 2 } as const
export type Direction = (typeof directions)[keyof typeof directions]

/** AES-128-GCM key (16 bytes) and IV (12 bytes) of one direction and stream in one epoch. */
export interface MediaKey {
  readonly key: Uint8Array
  readonly iv: Uint8Array
}

export const mediaLabel = 'EXPORTER-svc/1-media'
export const pairLabel = 'EXPORTER-svc/1-pair'

/** The 14 bytes of exporter context; `session` is 8 bytes, `epoch` 1..2^32-1. */
export const keyContext = (
  session: Uint8Array,
  epoch: number,
  direction: Direction,
  stream: StreamNumber,
): Buffer => {
  if (session.length !== 8) throw new StreamError('bad-argument', 'a session id is 8 bytes')
  const context = Buffer.alloc(14)
  context.set(session, 0)
  context.writeUInt32BE(epoch, 8)
  context.writeUInt8(direction, 12)
  context.writeUInt8(stream, 13)
  return context
}

/** As `tls.TLSSocket.exportKeyingMaterial` (RFC 8446, 7.5). */
export type Exporter = (length: number, label: string, context: Buffer) => Buffer

export const mediaKey = (exporter: Exporter, context: Buffer): MediaKey => {
  const bytes = exporter(28, mediaLabel, context)
  return { key: bytes.subarray(0, 16), iv: bytes.subarray(16, 28) }
}
