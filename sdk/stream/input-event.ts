// Input events and the datagrams that carry them: PROTOCOL.md, section 8.
import { StreamError } from './error.ts'

/** Most events of one datagram. */
export const maxEventsPerDatagram = 64

export type InputEvent =
  /** `usage`: USB HID usage of page 0x07, 0..65535. */
  | { readonly type: 'key'; readonly usage: number; readonly down: boolean }
  /** 1..255 bytes of UTF-8; longer texts are several events. */
  | { readonly type: 'text'; readonly text: string }
  /** Pixels of the picture, -32768..32767. */
  | { readonly type: 'pointer-move'; readonly dx: number; readonly dy: number }
  /** 0 is the left (top) edge, 65535 the right (bottom) one. */
  | { readonly type: 'pointer-to'; readonly x: number; readonly y: number }
  /** 1 left, 2 middle, 3 right, 4 back, 5 forward. */
  | { readonly type: 'button'; readonly button: number; readonly down: boolean }
  /** 1/120 of a notch, positive is right and down, -32768..32767. */
  | { readonly type: 'scroll'; readonly dx: number; readonly dy: number }
  | { readonly type: 'release-all' }

const within = (name: string, value: number, least: number, most: number): number => {
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw new StreamError(
    'bad-argument',
    `${name} must be a whole number from ${least} to ${most}, but is ${value}`,
  )
}

const pair = (dx: number, dy: number, isSigned: boolean): Buffer => {
  const body = Buffer.alloc(4)
  const [least, most] = isSigned ? [-32768, 32767] : [0, 65535]
  body.writeUInt16BE(within('x', dx, least, most) & 0xffff, 0)
  body.writeUInt16BE(within('y', dy, least, most) & 0xffff, 2)
  return body
}

const bodyOf = (event: InputEvent): [type: number, body: Buffer] => {
  switch (event.type) {
    case 'key': {
      const body = Buffer.alloc(3)
      body.writeUInt16BE(within('usage', event.usage, 0, 65535), 0)
      body[2] = event.down ? 1 : 0
      return [1, body]
    }
    case 'text': {
      const body = Buffer.from(event.text, 'utf8')
      within('the length of text in bytes', body.length, 1, 255)
      return [2, body]
    }
    case 'pointer-move':
      return [3, pair(event.dx, event.dy, true)]
    case 'pointer-to':
      return [4, pair(event.x, event.y, false)]
    case 'button':
      return [5, Buffer.from([within('button', event.button, 1, 5), event.down ? 1 : 0])]
    case 'scroll':
      return [6, pair(event.dx, event.dy, true)]
    case 'release-all':
      return [9, Buffer.alloc(0)]
  }
}

/** Type, length and body. Throws `bad-argument` for what is out of range. */
export const encodeInput = (event: InputEvent): Buffer => {
  const [type, body] = bodyOf(event)
  return Buffer.concat([Buffer.from([type, body.length]), body])
}

/** A payload of encoded events, the first of which has the number `first`. */
export const inputPayload = (first: number, events: readonly Buffer[]): Buffer => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(first, 0)
  head.writeUInt8(events.length, 4)
  return Buffer.concat([head, ...events])
}

/** Cuts a text into text events of at most 255 bytes each, never within a character. */
export const textEvents = (text: string): InputEvent[] => {
  const events: InputEvent[] = []
  let part = ''
  for (const character of text) {
    if (Buffer.byteLength(part + character) > 255) {
      events.push({ type: 'text', text: part })
      part = ''
    }
    part += character
  }
  if (part) events.push({ type: 'text', text: part })
  return events
}
