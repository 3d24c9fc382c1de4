// Bytes over the bridge: few of them within a message, more of them piece by piece, and one piece of all at a time.
import { fromBase64, toBase64 } from './bytes.ts'
import { ask, tell } from './wire.ts'

/** What goes in a message of its own, so that many at once still fit into what may leave an isolate together. */
const inlineBytes = 4 * 1024
/** Both ways; of what comes, a shorter piece is the last. */
const pieceBytes = 64 * 1024
const limitBytes = 4 * 1024 * 1024

export type Crossing = null | string | number

let lastNumber = 0
let turn: Promise<unknown> = Promise.resolve()

/** Sends bytes ahead where they are too many, and runs with what stands for them. */
export async function sending<T>(
  bytes: Uint8Array | undefined,
  run: (crossing: Crossing) => Promise<T>,
): Promise<T> {
  if (bytes === undefined) return run(null)
  if (bytes.length > limitBytes) throw new Error(`over ${limitBytes} bytes cannot be sent at once`)
  if (bytes.length <= inlineBytes) return run(toBase64(bytes))
  lastNumber += 1
  const number = lastNumber
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      const piece = bytes.subarray(at, at + pieceBytes)
      const sent = turn.then(() => ask('parcel', number, toBase64(piece)))
      turn = sent.catch(() => {})
      await sent
    }
    return await run(number)
  } finally {
    // Whatever became of it, the host need not keep it.
    tell('dropParcel', number)
  }
}

/** Fetches the bytes that an answer stands for. */
export async function collect(crossing: string | number): Promise<Uint8Array> {
  if (typeof crossing === 'string') return fromBase64(crossing)
  const pieces: Uint8Array[] = []
  for (;;) {
    const piece = fromBase64(await ask<string>('piece', crossing))
    pieces.push(piece)
    if (piece.length < pieceBytes) break
  }
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
