// A browser's device key: P-256, known by the SHA-256 of its SubjectPublicKeyInfo; and what it signs to prove itself.
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'

export interface DeviceKey {
  /** 64 lowercase hex characters. */
  readonly fingerprint: string
  /** Whether this is an ASN.1 DER signature of the key over these bytes (ECDSA, SHA-256). */
  hasSigned(message: Uint8Array, signature: string): boolean
}

/** A P-256 key in SubjectPublicKeyInfo is 91 bytes long; nothing larger is looked at. */
const spkiBytes = 91

const bytesOf = (base64: string, limit: number): Buffer | undefined => {
  const bytes = Buffer.from(base64, 'base64')
  return base64.length <= limit * 2 && bytes.length <= limit && bytes.toString('base64') === base64
    ? bytes
    : undefined
}

/** Reads base64 of SPKI DER; undefined when it is no P-256 key in the one form that has a fingerprint. */
export function readDeviceKey(text: string): DeviceKey | undefined {
  const der = bytesOf(text, spkiBytes)
  if (der?.length !== spkiBytes) return undefined
  let key: KeyObject
  try {
    key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  } catch {
    return undefined
  }
  const isP256 = key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
  if (!isP256 || !key.export({ format: 'der', type: 'spki' }).equals(der)) return undefined
  return {
    fingerprint: createHash('sha256').update(der).digest('hex'),
    hasSigned(message, signature) {
      const bytes = bytesOf(signature, 80)
      return bytes !== undefined && verify('sha256', message, { key, dsaEncoding: 'der' }, bytes)
    },
  }
}

const zero = Buffer.alloc(1)

/** What is signed for a token (wire-decisions, "Device exchange"). */
export const tokenMessage = (hostFingerprint: string, nonce: string): Buffer =>
  Buffer.concat([
    Buffer.from('svc-device-auth-v1'),
    zero,
    Buffer.from(hostFingerprint, 'hex'),
    Buffer.from(nonce, 'hex'),
  ])

/** What is signed for a knock: the name too, so that nobody else chooses it. */
export const knockMessage = (hostFingerprint: string, name: string): Buffer =>
  Buffer.concat([
    Buffer.from('svc-device-knock-v1'),
    zero,
    Buffer.from(hostFingerprint, 'hex'),
    Buffer.from(name),
  ])

/** Session id of the PIN exchange: this key with this host. The window lets one exchange in, so that it is used once. */
export const exchangeId = (hostFingerprint: string, fingerprint: string): Buffer =>
  createHash('sha256')
    .update('svc-device-pair-v1')
    .update(zero)
    .update(Buffer.from(hostFingerprint, 'hex'))
    .update(Buffer.from(fingerprint, 'hex'))
    .digest()
