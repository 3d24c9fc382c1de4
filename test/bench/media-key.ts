// The key of a real session's video, so that the benchmark can read what it hears: from the viewer's TLS key log.
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { directions, keyContext, type MediaKey, mediaKey, streams } from '../../sdk/stream/media-keys.ts'

/** HKDF-Expand-Label of RFC 8446, section 7.1. */
function expandLabel(hash: string, secret: Buffer, label: string, context: Buffer, length: number): Buffer {
  const name = Buffer.from(`tls13 ${label}`)
  const head = Buffer.from([length >> 8, length & 255, name.length])
  const info = Buffer.concat([head, name, Buffer.from([context.length]), context])
  let block = Buffer.alloc(0)
  let out = Buffer.alloc(0)
  for (let i = 1; out.length < length; i++) {
    block = createHmac(hash, secret)
      .update(Buffer.concat([block, info, Buffer.from([i])]))
      .digest()
    out = Buffer.concat([out, block])
  }
  return out.subarray(0, length)
}

/** Key of the video that the host sends, from the last connection in a log of `node --tls-keylog`. */
export function videoKey(keyLog: string, session: Uint8Array, epoch: number): MediaKey {
  const line = readFileSync(keyLog, 'utf8').match(
    /^EXPORTER_SECRET \S+ ([0-9a-f]+)$(?![\s\S]*EXPORTER_SECRET)/m,
  )
  if (!line) throw new Error(`${keyLog} holds no exporter secret`)
  const master = Buffer.from(line[1] as string, 'hex')
  const hash = master.length === 48 ? 'sha384' : 'sha256'
  const digest = (bytes: Buffer) => createHash(hash).update(bytes).digest()
  return mediaKey(
    (length, label, context) => {
      const secret = expandLabel(hash, master, label, digest(Buffer.alloc(0)), master.length)
      return expandLabel(hash, secret, 'exporter', digest(context), length)
    },
    keyContext(session, epoch, directions.toClient, streams.video),
  )
}
