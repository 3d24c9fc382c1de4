// Control messages that a client sends, checked before anything looks at them (PROTOCOL.md, section 2).
import { z } from 'zod'

/** What breaks the protocol; the connection is closed with `protocol-error` and this sentence. */
export class ProtocolError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ProtocolError'
  }
}

const Mode = z.object({ width: z.number(), height: z.number(), hz: z.number() })

const Hello = z.object({
  type: z.literal('hello'),
  protocol: z.object({ min: z.int(), max: z.int() }),
  name: z.string(),
  intent: z.enum(['stream', 'pair']),
})
const PairShare = z.object({ type: z.literal('pair-share'), share: z.string() })
const PairConfirm = z.object({ type: z.literal('pair-confirm'), tag: z.string() })
const Start = z.object({
  type: z.literal('start'),
  mode: Mode,
  video: z.array(z.string()),
  audio: z.object({ channels: z.int(), frame_ms: z.int() }).nullish(),
  grants: z.int().nonnegative(),
  bitrate_kbps: z.number().nonnegative().optional(),
  max_datagram_bytes: z.number().nonnegative().optional(),
  launch: z.string().nullish(),
  wait: z.boolean().nullish(),
  resume: z.string().nullish(),
})
export type Start = z.output<typeof Start>

const Message = z.discriminatedUnion('type', [
  Hello,
  PairShare,
  PairConfirm,
  Start,
  z.object({ type: z.literal('resize'), mode: Mode }),
  z.object({ type: z.literal('keyframe') }),
  z.object({ type: z.literal('bitrate'), kbps: z.number().nonnegative() }),
  z.object({
    type: z.literal('stats'),
    decoded: z.number().optional(),
    presented: z.number().optional(),
    decode_us_p50: z.number().optional(),
  }),
  z.object({ type: z.literal('ping'), id: z.int() }),
  z.object({ type: z.literal('pong'), id: z.int() }),
  z.object({ type: z.literal('close'), code: z.string(), message: z.string().optional() }),
])
export type Message = z.output<typeof Message>

const knownTypes: ReadonlySet<string> = new Set(Message.options.map(({ shape }) => shape.type.value))

const utf8 = new TextDecoder('utf-8', { fatal: true })

const parseJson = (bytes: Uint8Array): unknown => {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch {
    throw new ProtocolError('a message is not JSON in UTF-8')
  }
}

/** Reads one message; undefined for a type that this version does not know. Throws `ProtocolError`. */
export const readMessage = (bytes: Uint8Array): Message | undefined => {
  const json = parseJson(bytes)
  const type = typeof json === 'object' && json !== null && 'type' in json ? json.type : undefined
  if (typeof type !== 'string') throw new ProtocolError('a message is not an object with a string type')
  if (!knownTypes.has(type)) return undefined
  const parsed = Message.safeParse(json)
  if (parsed.success) return parsed.data
  const path = parsed.error.issues[0]?.path.join('.') ?? ''
  throw new ProtocolError(`${type}: field ${path || '?'} is missing or has the wrong type`)
}

/** A mode within the bounds of section 2.3, or why not. */
export const checkMode = ({ width, height, hz }: z.output<typeof Mode>): string | undefined => {
  const isEven = (n: number, least: number, most: number) =>
    Number.isInteger(n) && n % 2 === 0 && n >= least && n <= most
  if (!isEven(width, 64, 7680)) return 'width must be an even number from 64 to 7680'
  if (!isEven(height, 64, 4320)) return 'height must be an even number from 64 to 4320'
  return Number.isInteger(hz) && hz >= 1 && hz <= 240 ? undefined : 'hz must be a whole number from 1 to 240'
}

/** 32 bytes of standard base64; an empty array for anything else, which no share and no tag equals. */
export const decode32 = (text: string): Uint8Array =>
  /^[A-Za-z0-9+/]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : new Uint8Array(0)
