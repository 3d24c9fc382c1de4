// Bytes that are too many for one message of a bridge: they cross piece by piece, and wait here until they are whole.
import { bodyLimitBytes } from '../../sdk/egress/fetch.ts'

/** Up to this an answer brings its bytes along; a piece is as large. */
const pieceBytes = 64 * 1024
/** What may wait here, both ways together, and of how many. */
const heldLimitBytes = 24 * 1024 * 1024
const comingLimit = 256

/** As it crosses: nothing, base64, or the number of what has been sent ahead. */
export type Crossing = null | string | number

export interface Parcels {
  /** Adds a piece to what the other side sends under a number of its own. */
  add(number: number, base64: string): void
  /** Takes what came, whole. */
  take(crossing: Crossing): Buffer | undefined
  give(bytes: Buffer): Crossing
  /** The next piece of what was given by number; the last one is shorter, maybe empty. */
  next(number: number): string
}

export function createParcels(): Parcels {
  const coming = new Map<number, Buffer[]>()
  const going = new Map<number, Buffer>()
  let lastGiven = 0
  let held = 0
  const hold = (count: number): void => {
    if (held + count > heldLimitBytes)
      throw new Error(`over ${heldLimitBytes} bytes of it are under way; wait until some have arrived`)
    held += count
  }
  return {
    add(number, base64) {
      const bytes = Buffer.from(base64, 'base64')
      const pieces = coming.get(number) ?? []
      const total = pieces.reduce((sum, { length }) => sum + length, bytes.length)
      if (total > bodyLimitBytes || (!coming.has(number) && coming.size >= comingLimit))
        throw new Error(`over ${bodyLimitBytes} bytes, or ${comingLimit} parcels, cannot be sent at once`)
      hold(bytes.length)
      coming.set(number, [...pieces, bytes])
    },
    take(crossing) {
      if (typeof crossing !== 'number') return crossing === null ? undefined : Buffer.from(crossing, 'base64')
      const bytes = Buffer.concat(coming.get(crossing) ?? [])
      coming.delete(crossing)
      held -= bytes.length
      return bytes
    },
    give(bytes) {
      if (bytes.length <= pieceBytes) return bytes.toString('base64')
      hold(bytes.length)
      lastGiven += 1
      going.set(lastGiven, bytes)
      return lastGiven
    },
    next(number) {
      const bytes = going.get(number) ?? Buffer.alloc(0)
      const [piece, rest] = [bytes.subarray(0, pieceBytes), bytes.subarray(pieceBytes)]
      held -= piece.length
      if (piece.length < pieceBytes) going.delete(number)
      else going.set(number, rest)
      return piece.toString('base64')
    },
  }
}
