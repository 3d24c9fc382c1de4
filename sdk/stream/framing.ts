// Length-prefixed JSON, the form of every control message: PROTOCOL.md, section 2.
import { StreamError } from './error.ts'

/** Least and most bytes of a message's JSON. */
export const messageBytes = { least: 2, most: 65_536 } as const

const broken = (what: string, cause?: unknown): StreamError =>
  new StreamError('protocol-error', `the host broke the protocol: ${what}`, { cause })

/** One JSON object with a string `type`; throws `protocol-error` for anything else. */
export const parseMessage = (bytes: Uint8Array): Record<string, unknown> & { readonly type: string } => {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw broken('a message is not JSON in UTF-8', error)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw broken('a message is not an object')
  }
  const { type } = value as Record<string, unknown>
  if (typeof type !== 'string') throw broken('a message has no type')
  return { ...value, type }
}

export const encodeMessage = (message: { readonly type: string }): Buffer => {
  const body = Buffer.from(JSON.stringify(message))
  if (body.length > messageBytes.most) {
    throw new StreamError(
      'bad-argument',
      `a ${message.type} message of ${body.length} bytes is too long to send`,
    )
  }
  const head = Buffer.alloc(4)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

/** Cuts a byte stream into messages. Holds at most one message's bytes. */
export interface MessageReader {
  /** The messages that are whole with this chunk; throws `protocol-error`, after which the reader is spent. */
  push(chunk: Uint8Array): (Record<string, unknown> & { readonly type: string })[]
  /** Bytes of a message that is not whole yet. */
  readonly pendingBytes: number
}

export const createMessageReader = (): MessageReader => {
  let chunks: Uint8Array[] = []
  let held = 0
  /** Bytes that must be there before the next step, the length included. */
  let wanted = 4
  return {
    get pendingBytes() {
      return held
    },
    push: chunk => {
      const messages: (Record<string, unknown> & { readonly type: string })[] = []
      chunks.push(chunk)
      held += chunk.length
      // Joined only when enough is there: a peer that sends byte by byte costs no more than one that does not.
      if (held < wanted && chunks.length < 256) return messages
      let bytes = Buffer.concat(chunks)
      for (;;) {
        wanted = 4
        if (bytes.length < 4) break
        const length = bytes.readUInt32BE(0)
        if (length < messageBytes.least || length > messageBytes.most) {
          throw broken(`a message claims ${length} bytes`)
        }
        wanted = 4 + length
        if (bytes.length < wanted) break
        messages.push(parseMessage(bytes.subarray(4, wanted)))
        bytes = bytes.subarray(wanted)
      }
      chunks = bytes.length > 0 ? [bytes] : []
      held = bytes.length
      return messages
    },
  }
}
