// CPACE-RISTR255-SHA512 (draft-irtf-cfrg-cpace) in initiator-responder form, with key confirmation: PROTOCOL.md, 2.2.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { ristretto255, ristretto255_hasher } from '@noble/curves/ed25519.js'

const { Point } = ristretto255
const dsi = Buffer.from('CPaceRistretto255')
/** Input block of SHA-512 in bytes; the draft's `s_in_bytes`. */
const blockBytes = 128

const sha512 = (...parts: Uint8Array[]): Buffer => {
  const hash = createHash('sha512')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The draft's `prepend_len`: the length as LEB128, then the bytes. */
const prependLength = (bytes: Uint8Array): Buffer => {
  const length: number[] = []
  let rest = bytes.length
  while (rest >= 0x80) {
    length.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  return Buffer.concat([Buffer.from([...length, rest]), bytes])
}

/** The draft's `lv_cat`: every part with its length before it. */
export const lvCat = (...parts: Uint8Array[]): Buffer => Buffer.concat(parts.map(prependLength))

/** What both sides must agree on for the exchange to succeed. */
export interface CpaceInput {
  /** Password-related string: the PIN's ASCII digits. */
  readonly prs: Uint8Array
  /** Channel identifier. */
  readonly ci: Uint8Array
  /** Session id of the exchange. */
  readonly sid: Uint8Array
}

/** CI of a pairing: who pairs with whom. Both are 32-byte fingerprints. */
export const pairingChannel = (clientFingerprint: Uint8Array, hostFingerprint: Uint8Array): Buffer =>
  lvCat(Buffer.from('svc/1 pair'), clientFingerprint, hostFingerprint)

/** The draft's `generator_string`; its padding makes the first hash block hold nothing but DSI and PRS. */
export const generatorString = ({ prs, ci, sid }: CpaceInput): Buffer => {
  const padding = Math.max(0, blockBytes - 1 - prependLength(prs).length - prependLength(dsi).length)
  return lvCat(dsi, prs, Buffer.alloc(padding), ci, sid)
}

/** The draft's `calculate_generator`, encoded (32 bytes). */
export const generator = (input: CpaceInput): Uint8Array =>
  ristretto255_hasher.deriveToCurve!(sha512(generatorString(input))).toBytes()

const scalarOf = (littleEndian: Uint8Array): bigint =>
  Point.Fn.create(BigInt(`0x${Buffer.from(littleEndian).reverse().toString('hex')}`))

/** The draft's `scalar_mult_vfy`: undefined for what is no group element, and for the identity. */
export const scalarMultVerified = (scalar: Uint8Array, share: Uint8Array): Uint8Array | undefined => {
  if (share.length !== 32) return undefined
  try {
    const product = Point.fromBytes(share).multiply(scalarOf(scalar))
    return product.equals(Point.ZERO) ? undefined : product.toBytes()
  } catch {
    return undefined
  }
}

/** The client's half of the exchange, after its share was made. */
export interface CpaceInitiator {
  /** Ya, 32 bytes: sent first. */
  readonly share: Uint8Array
  /** Takes Yb; undefined when it is not a valid share and the exchange must end. */
  finish(hostShare: Uint8Array): CpaceOutcome | undefined
}
export interface CpaceOutcome {
  /** The shared key, 64 bytes. */
  readonly isk: Uint8Array
  /** Ta, 32 bytes: what proves this side. */
  readonly tag: Uint8Array
  /** Whether the other side's tag (Tb, 32 bytes) proves it; takes the same time for every wrong one. */
  verify(hostTag: Uint8Array): boolean
}

/**
 * Begins an exchange as initiator. `scalar` (32 bytes, little-endian, reduced by the group order) is random in use
 * and given only by tests; `ad` are the associated data of both sides, empty in a pairing.
 */
export const initiate = (
  input: CpaceInput,
  scalar: Uint8Array = randomScalar(),
  ad: { readonly own: Uint8Array; readonly peer: Uint8Array } = { own: empty, peer: empty },
): CpaceInitiator => {
  const share = scalarMultVerified(scalar, generator(input))
  if (!share) throw new RangeError('the scalar is a multiple of the group order')
  return {
    share,
    finish: hostShare => {
      const secret = scalarMultVerified(scalar, hostShare)
      if (!secret) return undefined
      const own = lvCat(share, ad.own)
      const peer = lvCat(hostShare, ad.peer)
      const isk = sha512(lvCat(Buffer.concat([dsi, Buffer.from('_ISK')]), input.sid, secret), own, peer)
      const macKey = sha512(Buffer.from('CPaceMac'), input.sid, isk)
      const tagOver = (bytes: Uint8Array) =>
        createHmac('sha512', macKey).update(bytes).digest().subarray(0, 32)
      const expected = tagOver(peer)
      return {
        isk,
        tag: tagOver(own),
        verify: hostTag => hostTag.length === expected.length && timingSafeEqual(hostTag, expected),
      }
    },
  }
}

const empty = new Uint8Array(0)

/** Uniform below the group order: 64 random bytes reduced, so that the bias is below 2^-250. */
const randomScalar = (): Uint8Array => {
  const wide = globalThis.crypto.getRandomValues(new Uint8Array(64))
  const scalar = Buffer.alloc(32)
  let rest = scalarOf(wide) || 1n
  for (let i = 0; i < 32; i++, rest >>= 8n) scalar[i] = Number(rest & 0xffn)
  return scalar
}
