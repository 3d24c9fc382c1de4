// Messages of the path stream: pings, feedback, requests, acknowledgements. PROTOCOL.md, section 7.

export const requestKinds = { keyframe: 1, refresh: 2 } as const

/** 64-bit times are microseconds; those of the client fit a number, those read from the host may lose their last bits. */
export type PathMessage =
  | { readonly type: 'ping'; readonly id: number; readonly clientUs: bigint }
  | {
      readonly type: 'pong'
      readonly id: number
      readonly clientUs: bigint
      readonly hostReceiveUs: bigint
      readonly hostSendUs: bigint
    }
  | ({ readonly type: 'feedback' } & Feedback)
  | {
      readonly type: 'request'
      readonly kind: number
      readonly newestFrame: number
      /** With `refresh`: the first frame that the decoder lacks; it has all before that one. */
      readonly firstLost?: number
    }
  | { readonly type: 'input-ack'; readonly next: number }
  | { readonly type: 'probe'; readonly id: number; readonly padding: number }
  | { readonly type: 'probe-ack'; readonly id: number; readonly length: number }
  | { readonly type: 'bye' }
  /** Everything up to this frame has left the host. */
  | { readonly type: 'sent'; readonly frame: number }

/** Everything since the start of the epoch. */
export interface Feedback {
  readonly newestFrame: number
  readonly received: number
  readonly lost: number
  readonly recovered: number
  readonly framesLost: number
  readonly audioLost: number
  readonly delayVariationUs: number
  /** Datagrams of sound; 0 in a message of a client that does not tell. */
  readonly audioReceived: number
  readonly audioDatagramsLost: number
  /** Rate at which the datagrams of one frame arrive, kbit/s; 0: not known. */
  readonly pathKbps: number
}

const clampU32 = (n: number) => Math.max(0, Math.min(0xffffffff, Math.round(n)))
const clampI32 = (n: number) => Math.max(-0x80000000, Math.min(0x7fffffff, Math.round(n)))

const bodyOf = (message: PathMessage): [type: number, body: Buffer] => {
  switch (message.type) {
    case 'ping': {
      const body = Buffer.alloc(12)
      body.writeUInt32BE(message.id, 0)
      body.writeBigUInt64BE(message.clientUs, 4)
      return [1, body]
    }
    case 'pong': {
      const body = Buffer.alloc(28)
      body.writeUInt32BE(message.id, 0)
      body.writeBigUInt64BE(message.clientUs, 4)
      body.writeBigUInt64BE(message.hostReceiveUs, 12)
      body.writeBigUInt64BE(message.hostSendUs, 20)
      return [2, body]
    }
    case 'feedback': {
      const body = Buffer.alloc(40)
      const { newestFrame, received, lost, recovered, framesLost, audioLost } = message
      const numbers = [newestFrame, received, lost, recovered, framesLost, audioLost]
      numbers.forEach((n, i) => {
        body.writeUInt32BE(clampU32(n), i * 4)
      })
      body.writeInt32BE(clampI32(message.delayVariationUs), 24)
      body.writeUInt32BE(clampU32(message.audioReceived), 28)
      body.writeUInt32BE(clampU32(message.audioDatagramsLost), 32)
      body.writeUInt32BE(clampU32(message.pathKbps), 36)
      return [3, body]
    }
    case 'request': {
      const body = Buffer.alloc(message.firstLost === undefined ? 5 : 9)
      body.writeUInt8(message.kind, 0)
      body.writeUInt32BE(message.newestFrame, 1)
      if (message.firstLost !== undefined) body.writeUInt32BE(message.firstLost, 5)
      return [4, body]
    }
    case 'input-ack': {
      const body = Buffer.alloc(4)
      body.writeUInt32BE(message.next, 0)
      return [5, body]
    }
    case 'probe': {
      const body = Buffer.alloc(4 + message.padding)
      body.writeUInt32BE(message.id, 0)
      return [6, body]
    }
    case 'probe-ack': {
      const body = Buffer.alloc(6)
      body.writeUInt32BE(message.id, 0)
      body.writeUInt16BE(message.length, 4)
      return [7, body]
    }
    case 'bye':
      return [8, Buffer.alloc(0)]
    case 'sent': {
      const body = Buffer.alloc(4)
      body.writeUInt32BE(message.frame, 0)
      return [9, body]
    }
  }
}

/** One payload of one or more messages. */
export const encodePath = (...messages: readonly PathMessage[]): Buffer =>
  Buffer.concat(
    messages.flatMap(message => {
      const [type, body] = bodyOf(message)
      const head = Buffer.alloc(3)
      head.writeUInt8(type, 0)
      head.writeUInt16BE(body.length, 1)
      return [head, body]
    }),
  )

/** Shortest body of each known type, bytes. */
const shortest: Readonly<Record<number, number>> = { 1: 12, 2: 28, 3: 28, 4: 5, 5: 4, 6: 4, 7: 6, 8: 0, 9: 4 }

const decode = (type: number, body: Buffer): PathMessage | undefined => {
  const least = shortest[type]
  if (least === undefined || body.length < least) return undefined
  const u32 = (offset: number) => body.readUInt32BE(offset)
  const u64 = (offset: number) => body.readBigUInt64BE(offset)
  switch (type) {
    case 1:
      return { type: 'ping', id: u32(0), clientUs: u64(4) }
    case 2:
      return { type: 'pong', id: u32(0), clientUs: u64(4), hostReceiveUs: u64(12), hostSendUs: u64(20) }
    case 3:
      return {
        type: 'feedback',
        newestFrame: u32(0),
        received: u32(4),
        lost: u32(8),
        recovered: u32(12),
        framesLost: u32(16),
        audioLost: u32(20),
        delayVariationUs: body.readInt32BE(24),
        audioReceived: body.length >= 36 ? u32(28) : 0,
        audioDatagramsLost: body.length >= 36 ? u32(32) : 0,
        pathKbps: body.length >= 40 ? u32(36) : 0,
      }
    case 4:
      return {
        type: 'request',
        kind: body[0]!,
        newestFrame: u32(1),
        ...(body.length >= 9 && { firstLost: u32(5) }),
      }
    case 5:
      return { type: 'input-ack', next: u32(0) }
    case 6:
      return { type: 'probe', id: u32(0), padding: body.length - 4 }
    case 7:
      return { type: 'probe-ack', id: u32(0), length: body.readUInt16BE(4) }
    case 9:
      return { type: 'sent', frame: u32(0) }
    default:
      return { type: 'bye' }
  }
}

/** The known messages of a payload, in order; stops at a message that is cut off. Never throws. */
export const parsePath = (payload: Buffer): PathMessage[] => {
  const messages: PathMessage[] = []
  for (let at = 0; at + 3 <= payload.length; ) {
    const end = at + 3 + payload.readUInt16BE(at + 1)
    if (end > payload.length) break
    const message = decode(payload[at]!, payload.subarray(at + 3, end))
    if (message) messages.push(message)
    at = end
  }
  return messages
}
