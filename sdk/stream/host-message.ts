// The control messages that a host sends, checked field by field: PROTOCOL.md, sections 2.1 to 2.5.
import { type CloseCode, closeCodes, type RefusalReason, refusalReasons, StreamError } from './error.ts'

/** A picture's size and rate: 64..7680 x 64..4320 pixels, even; 1..240 Hz. */
export interface Mode {
  readonly width: number
  readonly height: number
  readonly hz: number
}
/** `vc2` is intra only and meant for very high bitrates. */
export type VideoCodec = 'h264' | 'hevc' | 'av1' | 'vc2'
export interface AudioFormat {
  readonly codec: 'opus'
  readonly channels: number
  readonly frameMs: number
  /** Samples per second. */
  readonly rate: number
}
/** What the host calls itself. */
export interface HostInfo {
  readonly name: string
  readonly id: string
  readonly version: string
}
/** The host's answer to `start`: what the client gets of what it wished for. */
export interface Started {
  /** 16 hex characters; what a resume names. */
  readonly session: string
  readonly epoch: number
  readonly mode: Mode
  readonly codec: VideoCodec
  readonly audio: AudioFormat | undefined
  /** Bits of section 2.3. */
  readonly grants: number
  /** UDP port of the media. */
  readonly port: number
  readonly bitrateKbps: number
  readonly maxDatagramBytes: number
  readonly idleTimeoutMs: number
  readonly generation: number
}
/** Pointer shape for a client that draws the pointer itself; `shape` is there when it is new. */
export interface Cursor {
  readonly id: number
  readonly shape?: {
    readonly width: number
    readonly height: number
    readonly hotX: number
    readonly hotY: number
    /** 4 bytes for each pixel. */
    readonly rgba: Buffer
  }
}

export type HostMessage =
  | {
      readonly type: 'welcome'
      readonly protocol: number
      readonly host: HostInfo
      readonly isPaired: boolean
    }
  | { readonly type: 'pair-share'; readonly share: Buffer }
  | { readonly type: 'pair-confirm'; readonly tag: Buffer }
  | { readonly type: 'wait'; readonly for: string; readonly timeoutMs: number | undefined }
  | { readonly type: 'started'; readonly started: Started }
  | {
      readonly type: 'refuse'
      readonly reason: RefusalReason
      readonly message: string
      readonly retryAfterMs: number | undefined
    }
  | { readonly type: 'resized'; readonly mode: Mode; readonly generation: number }
  | { readonly type: 'resize-refused'; readonly message: string }
  | { readonly type: 'bitrate'; readonly kbps: number }
  | { readonly type: 'grants'; readonly grants: number }
  | { readonly type: 'cursor'; readonly cursor: Cursor }
  | {
      readonly type: 'rumble'
      readonly pad: number
      readonly low: number
      readonly high: number
      readonly ms: number
    }
  | { readonly type: 'ping' | 'pong'; readonly id: number }
  | { readonly type: 'close'; readonly code: CloseCode; readonly message: string }

type Fields = Record<string, unknown>

const wrong = (message: string, field: string, want: string): StreamError =>
  new StreamError('protocol-error', `the host broke the protocol: ${field} of ${message} is not ${want}`)

/** Readers of one message's fields, which name message and field when one is wrong. */
const reader = (message: string, fields: Fields) => {
  const string = (field: string, absent?: string): string => {
    const value = fields[field] ?? absent
    if (typeof value !== 'string') throw wrong(message, field, 'a string')
    return value
  }
  const integer = (field: string, least: number, most: number): number => {
    const value = fields[field]
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
    throw wrong(message, field, `a whole number from ${least} to ${most}`)
  }
  const boolean = (field: string): boolean => {
    const value = fields[field]
    if (typeof value !== 'boolean') throw wrong(message, field, 'true or false')
    return value
  }
  const bytes = (field: string, most: number): Buffer => {
    const text = string(field)
    const value = Buffer.from(text, 'base64')
    if (value.length > most || value.toString('base64') !== text)
      throw wrong(message, field, 'base64 as expected')
    return value
  }
  const within = (field: string) => {
    const value = fields[field]
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw wrong(message, field, 'an object')
    return reader(`${message}.${field}`, value as Fields)
  }
  return { string, integer, boolean, bytes, within, has: (field: string) => fields[field] != null }
}
type Reader = ReturnType<typeof reader>

const u32 = 0xffffffff

const mode = (read: Reader): Mode => ({
  width: read.integer('width', 64, 7680),
  height: read.integer('height', 64, 4320),
  hz: read.integer('hz', 1, 240),
})

const started = (read: Reader): Started => {
  const session = read.string('session')
  if (!/^[0-9a-f]{16}$/.test(session)) throw wrong('started', 'session', '16 hex characters')
  const codec = read.within('video').string('codec')
  if (!['h264', 'hevc', 'av1', 'vc2'].includes(codec)) throw wrong('started', 'video.codec', 'a known codec')
  const audio = read.has('audio') ? read.within('audio') : undefined
  if (audio && audio.string('codec') !== 'opus') throw wrong('started', 'audio.codec', 'opus')
  return {
    session,
    epoch: read.integer('epoch', 1, u32),
    mode: mode(read.within('mode')),
    codec: codec as VideoCodec,
    audio: audio && {
      codec: 'opus',
      channels: audio.integer('channels', 1, 8),
      frameMs: audio.integer('frame_ms', 1, 120),
      rate: audio.integer('rate', 8000, 192_000),
    },
    grants: read.integer('grants', 0, u32),
    port: read.integer('port', 1, 65535),
    bitrateKbps: read.integer('bitrate_kbps', 1, u32),
    maxDatagramBytes: read.integer('max_datagram_bytes', 256, 65535),
    idleTimeoutMs: read.integer('idle_timeout_ms', 100, 86_400_000),
    generation: read.integer('generation', 0, u32),
  }
}

const cursor = (read: Reader): Cursor => {
  const id = read.integer('id', 0, u32)
  if (!read.has('rgba')) return { id }
  const width = read.integer('width', 1, 256)
  const height = read.integer('height', 1, 256)
  const rgba = read.bytes('rgba', width * height * 4)
  if (rgba.length !== width * height * 4) throw wrong('cursor', 'rgba', 'width x height x 4 bytes')
  const hotX = read.integer('hot_x', 0, 255)
  const hotY = read.integer('hot_y', 0, 255)
  return { id, shape: { width, height, hotX, hotY, rgba } }
}

const readers: Readonly<Record<string, (read: Reader) => HostMessage>> = {
  welcome: read => {
    const host = read.within('host')
    return {
      type: 'welcome',
      protocol: read.integer('protocol', 1, u32),
      host: { name: host.string('name'), id: host.string('id'), version: host.string('version') },
      isPaired: read.boolean('paired'),
    }
  },
  'pair-share': read => ({ type: 'pair-share', share: read.bytes('share', 1024) }),
  'pair-confirm': read => ({ type: 'pair-confirm', tag: read.bytes('tag', 1024) }),
  wait: read => ({
    type: 'wait',
    for: read.string('for'),
    timeoutMs: read.has('timeout_ms') ? read.integer('timeout_ms', 0, u32) : undefined,
  }),
  started: read => ({ type: 'started', started: started(read) }),
  refuse: read => {
    const reason = read.string('reason') as RefusalReason
    return {
      type: 'refuse',
      reason: refusalReasons.includes(reason) ? reason : 'host-error',
      message: read.string('message', ''),
      retryAfterMs: read.has('retry_after_ms') ? read.integer('retry_after_ms', 0, u32) : undefined,
    }
  },
  resized: read => ({
    type: 'resized',
    mode: mode(read.within('mode')),
    generation: read.integer('generation', 0, u32),
  }),
  'resize-refused': read => ({ type: 'resize-refused', message: read.string('message', '') }),
  bitrate: read => ({ type: 'bitrate', kbps: read.integer('kbps', 1, u32) }),
  grants: read => ({ type: 'grants', grants: read.integer('grants', 0, u32) }),
  cursor: read => ({ type: 'cursor', cursor: cursor(read) }),
  rumble: read => ({
    type: 'rumble',
    pad: read.integer('pad', 0, 255),
    low: read.integer('low', 0, 65535),
    high: read.integer('high', 0, 65535),
    ms: read.integer('ms', 0, u32),
  }),
  ping: read => ({ type: 'ping', id: read.integer('id', 0, u32) }),
  pong: read => ({ type: 'pong', id: read.integer('id', 0, u32) }),
  close: read => {
    const code = read.string('code') as CloseCode
    return {
      type: 'close',
      code: closeCodes.includes(code) ? code : 'host-error',
      message: read.string('message', ''),
    }
  },
}

/** Checks a message; undefined for an unknown type, which is ignored. Throws `protocol-error` for a wrong field. */
export const readHostMessage = (message: Fields & { readonly type: string }): HostMessage | undefined =>
  Object.hasOwn(readers, message.type) ? readers[message.type]!(reader(message.type, message)) : undefined
