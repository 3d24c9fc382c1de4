// CPace on the host's side (draft-irtf-cfrg-cpace, CPACE-RISTR255-SHA512, initiator-responder form, explicit key
// confirmation): the responder's steps, and nothing of the network or the window.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { ristretto255, ristretto255_hasher } from '@noble/curves/ed25519.js'

const { Point } = ristretto255
type Element = InstanceType<typeof ristretto255.Point>

const dsi = Buffer.from('CPaceRistretto255')
const dsiIsk = Buffer.from('CPaceRistretto255_ISK')
/** Input block of SHA-512, bytes. */
const blockBytes = 128
const tagBytes = 32
const none = new Uint8Array(0)

const sha512 = (...parts: Uint8Array[]): Buffer => {
  const hash = createHash('sha512')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The bytes behind their length in LEB128. */
export const prependLen = (data: Uint8Array): Buffer => {
  const length: number[] = []
  let rest = data.length
  do {
    length.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
    rest >>>= 7
  } while (rest > 0)
  return Buffer.concat([Buffer.from(length), data])
}
export const lvCat = (...parts: Uint8Array[]): Buffer => Buffer.concat(parts.map(prependLen))

/** What both sides know before the exchange. */
export interface CpaceInputs {
  /** The password: 4 ASCII digits. */
  readonly prs: Uint8Array
  /** Channel identifier: who talks to whom. */
  readonly ci: Uint8Array
  /** Session id: unique to this connection. */
  readonly sid: Uint8Array
}

/** The generator that the password, the channel and the session pick. */
export const generator = ({ prs, ci, sid }: CpaceInputs): Element => {
  const pad = Math.max(0, blockBytes - 1 - prependLen(prs).length - prependLen(dsi).length)
  return ristretto255_hasher.deriveToCurve!(sha512(lvCat(dsi, prs, new Uint8Array(pad), ci, sid))) as Element
}

/** A share as a group element; undefined when it is none, or the identity, which would make the key known. */
export const readShare = (share: Uint8Array): Element | undefined => {
  if (share.length !== 32) return undefined
  try {
    const element = Point.fromBytes(share)
    return element.is0() ? undefined : element
  } catch {
    return undefined
  }
}

/** Uniform in 1..order-1 up to a bias below 2^-250. */
const randomScalar = (): bigint => {
  const scalar = BigInt(`0x${randomBytes(64).toString('hex')}`) % Point.Fn.ORDER
  return scalar === 0n ? randomScalar() : scalar
}

/** The intermediate session key of 64 bytes. */
export const sessionKey = (
  sid: Uint8Array,
  shared: Uint8Array,
  a: { share: Uint8Array; ad: Uint8Array },
  b: { share: Uint8Array; ad: Uint8Array },
): Buffer => sha512(lvCat(dsiIsk, sid, shared), lvCat(a.share, a.ad), lvCat(b.share, b.ad))

const tag = (macKey: Uint8Array, share: Uint8Array, ad: Uint8Array): Buffer =>
  createHmac('sha512', macKey).update(lvCat(share, ad)).digest().subarray(0, tagBytes)

/** The host's half of one exchange. */
export interface Responder {
  /** Yb, to be sent. */
  readonly share: Uint8Array
  /** Tb when the client's tag proves the same password, in constant time; undefined otherwise. */
  confirm(clientTag: Uint8Array): Uint8Array | undefined
}

/** Answers the client's share. `scalar` is for test vectors only. */
export const respond = (inputs: CpaceInputs, clientShare: Element, scalar = randomScalar()): Responder => {
  const share = generator(inputs).multiply(scalar).toBytes()
  const shareOfClient = clientShare.toBytes()
  const shared = clientShare.multiply(scalar).toBytes()
  const isk = sessionKey(inputs.sid, shared, { share: shareOfClient, ad: none }, { share, ad: none })
  const macKey = sha512(Buffer.from('CPaceMac'), inputs.sid, isk)
  return {
    share,
    confirm: clientTag => {
      const wanted = tag(macKey, shareOfClient, none)
      const proven = clientTag.length === wanted.length && timingSafeEqual(clientTag, wanted)
      return proven ? tag(macKey, share, none) : undefined
    },
  }
}
