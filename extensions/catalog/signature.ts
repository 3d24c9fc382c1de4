// Whether an index is what its source has signed: ed25519 over the bytes as they came.
import { createPublicKey, verify } from 'node:crypto'

/** The fixed head of an ed25519 public key in DER, before its 32 bytes (RFC 8410). */
const derHead = Buffer.from('302a300506032b6570032100', 'hex')

/** `key` is `ed25519:` and base64; `signature` the base64 of 64 bytes, blanks around it allowed. */
export function isSigned(bytes: Uint8Array, signature: string, key: string): boolean {
  const raw = Buffer.from(key.replace(/^ed25519:/, ''), 'base64')
  const signed = Buffer.from(signature.trim(), 'base64')
  if (raw.length !== 32 || signed.length !== 64) return false
  try {
    const publicKey = createPublicKey({ key: Buffer.concat([derHead, raw]), format: 'der', type: 'spki' })
    return verify(null, bytes, publicKey, signed)
  } catch {
    return false
  }
}
