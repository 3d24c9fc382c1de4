// Media keys: taken from the TLS exporter of the connection on which `started` is sent (PROTOCOL.md, section 3).
import type { PipelineKeys } from 'svc-host/api/media'

const label = 'EXPORTER-svc/1-media'
const keyBytes = 28
const out = 1
const inward = 2
const streams = { video: 1, audio: 2, input: 3, path: 4 } as const

/** What a TLS socket offers of RFC 5705. */
export interface Exporter {
  exportKeyingMaterial(length: number, label: string, context: Buffer): Buffer
}

/** Session id, epoch, direction and stream as the exporter's context of 14 bytes. */
export const keyContext = (session: string, epoch: number, direction: number, stream: number): Buffer => {
  const context = Buffer.alloc(14)
  context.write(session, 0, 8, 'hex')
  context.writeUInt32BE(epoch, 8)
  context.writeUInt8(direction, 12)
  context.writeUInt8(stream, 13)
  return context
}

export const mediaKeys = (exporter: Exporter, session: string, epoch: number): PipelineKeys => {
  const key = (direction: number, stream: number) =>
    exporter.exportKeyingMaterial(keyBytes, label, keyContext(session, epoch, direction, stream))
  return {
    videoOut: key(out, streams.video),
    audioOut: key(out, streams.audio),
    pathOut: key(out, streams.path),
    inputIn: key(inward, streams.input),
    pathIn: key(inward, streams.path),
  }
}

/** The `sid` of the PIN exchange on this connection (section 2.2). */
export const pairingSid = (exporter: Exporter): Buffer =>
  exporter.exportKeyingMaterial(32, 'EXPORTER-svc/1-pair', Buffer.alloc(0))
