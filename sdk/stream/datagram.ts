// Sealed datagrams: header, AES-128-GCM, replay. PROTOCOL.md, section 4.
import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { MediaKey, StreamNumber } from './media-keys.ts'
import { createReplayWindow } from './replay-window.ts'

export const headerBytes = 20
export const tagBytes = 16
export const datagramOverhead = headerBytes + tagBytes

/** What a datagram says of itself before it is opened; nothing of it is proven yet. */
export interface DatagramHeader {
  readonly stream: number
  /** Low 8 bits. */
  readonly epoch: number
  readonly counter: bigint
}

/** Undefined for what is too short, or of another version. */
export const parseHeader = (datagram: Buffer): DatagramHeader | undefined => {
  if (datagram.length < datagramOverhead) return undefined
  const first = datagram[0]!
  if (first >> 4 !== 1) return undefined
  return { stream: first & 15, epoch: datagram[1]!, counter: datagram.readBigUInt64BE(12) }
}

const nonceOf = (iv: Uint8Array, counter: bigint): Buffer => {
  const nonce = Buffer.from(iv)
  const high = Number(counter >> 32n)
  const low = Number(counter & 0xffffffffn)
  nonce.writeUInt32BE((nonce.readUInt32BE(4) ^ high) >>> 0, 4)
  nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ low) >>> 0, 8)
  return nonce
}

/** One stream of one session's epoch, as both sides name it. */
export interface StreamOfSession {
  /** 8 bytes. */
  readonly session: Uint8Array
  readonly epoch: number
  readonly stream: StreamNumber
  readonly key: MediaKey
}

/** Seals payloads under a counter that starts at 0 (`first` only in tests) and never repeats. */
export const createSealer = (of: StreamOfSession, first = 0n): ((payload: Uint8Array) => Buffer) => {
  let counter = first
  return payload => {
    const header = Buffer.alloc(headerBytes)
    header[0] = 0x10 | of.stream
    header[1] = of.epoch & 0xff
    header.set(of.session, 4)
    header.writeBigUInt64BE(counter, 12)
    const cipher = createCipheriv('aes-128-gcm', of.key.key, nonceOf(of.key.iv, counter))
    cipher.setAAD(header)
    counter++
    return Buffer.concat([header, cipher.update(payload), cipher.final(), cipher.getAuthTag()])
  }
}

/** Why a datagram was dropped; for counting only, a peer never learns it. */
export type Dropped = 'foreign' | 'repeated' | 'too-old' | 'forged'

export interface Opened {
  readonly payload: Buffer
  readonly counter: bigint
  /** No newer counter of this stream had arrived before. */
  readonly isNewest: boolean
}

export interface Opener {
  open(datagram: Buffer): Opened | Dropped
  /** Newest authentic counter, or -1n. */
  readonly newest: bigint
}

/** Opens one stream's datagrams, each counter once. Never throws, whatever the bytes are. */
export const createOpener = (of: StreamOfSession): Opener => {
  const window = createReplayWindow()
  const session = Buffer.from(of.session)
  return {
    get newest() {
      return window.newest
    },
    open: datagram => {
      const header = parseHeader(datagram)
      if (!header || header.stream !== of.stream || header.epoch !== (of.epoch & 0xff)) return 'foreign'
      if (session.compare(datagram, 4, 12) !== 0) return 'foreign'
      const verdict = window.check(header.counter)
      if (verdict !== 'new') return verdict
      const decipher = createDecipheriv('aes-128-gcm', of.key.key, nonceOf(of.key.iv, header.counter), {
        authTagLength: tagBytes,
      })
      decipher.setAAD(datagram.subarray(0, headerBytes))
      decipher.setAuthTag(datagram.subarray(datagram.length - tagBytes))
      const payload = decipher.update(datagram.subarray(headerBytes, datagram.length - tagBytes))
      try {
        decipher.final()
      } catch {
        return 'forged'
      }
      return { payload, counter: header.counter, isNewest: window.accept(header.counter) }
    },
  }
}
