// Length-prefixed framing of the control connection (PROTOCOL.md, section 2).
import { ProtocolError } from './messages.ts'

/** Bounds of a message, bytes. */
const least = 2
const most = 65_536

/** Puts a message into its frame. */
export const frame = (message: object): Buffer => {
  const body = Buffer.from(JSON.stringify(message))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  return Buffer.concat([length, body])
}

/** Cuts a byte stream into messages; holds at most one unfinished one. */
export const createFrameReader = () => {
  let pieces: Buffer[] = []
  let held = 0
  /** Bytes that make `pieces` worth joining: first the length, then length and body. */
  let wanted = 4

  return {
    /** Bodies that `chunk` completes, in order. Throws `ProtocolError` once a length is out of range. */
    push: (chunk: Buffer): Buffer[] => {
      pieces.push(chunk)
      held += chunk.length
      const bodies: Buffer[] = []
      while (held >= wanted) {
        const joined = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, held)
        const length = joined.readUInt32BE(0)
        if (length < least || length > most) {
          throw new ProtocolError(`a message of ${length} bytes; ${least} to ${most} are allowed`)
        }
        wanted = 4 + length
        pieces = [joined]
        if (held < wanted) break
        bodies.push(joined.subarray(4, wanted))
        pieces = held > wanted ? [joined.subarray(wanted)] : []
        held -= wanted
        wanted = 4
      }
      return bodies
    },
  }
}
