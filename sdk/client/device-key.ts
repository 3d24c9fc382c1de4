// A browser's device key: made with WebCrypto, never leaves the browser, and proves itself to a host for a token.
import { ApiError } from './errors.ts'

type Key = Parameters<typeof crypto.subtle.sign>[1]

/** ECDSA on P-256; the private part need not be extractable. It can be kept in IndexedDB as it is. */
export interface DeviceKey {
  readonly publicKey: Key
  readonly privateKey: Key
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const

/** Makes a key whose private part nobody can read out, not even the page. */
export const createDeviceKey = (): Promise<DeviceKey> =>
  crypto.subtle.generateKey(algorithm, false, ['sign', 'verify'])

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes))
export const bytesOf = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(hex.match(/../g) ?? [], byte => Number.parseInt(byte, 16))

/** An integer of a signature in DER: without leading zeros, positive. */
function derInteger(bytes: Uint8Array): number[] {
  const from = bytes.findIndex(byte => byte !== 0)
  const digits = from < 0 ? [0] : [...bytes.subarray(from)]
  const positive = digits[0]! > 0x7f ? [0, ...digits] : digits
  return [0x02, positive.length, ...positive]
}

/** WebCrypto gives r and s side by side, the wire has them in ASN.1. */
export function derSignature(raw: Uint8Array): Uint8Array {
  const parts = [...derInteger(raw.subarray(0, 32)), ...derInteger(raw.subarray(32))]
  return Uint8Array.from([0x30, parts.length, ...parts])
}

/** `device_key` as the host takes it: base64 of the SPKI DER. */
export const spkiOf = async ({ publicKey }: DeviceKey): Promise<string> =>
  base64(new Uint8Array(await crypto.subtle.exportKey('spki', publicKey)))

/** Signs what wire-decisions, "Device exchange", has: a purpose, a zero byte, the host, and what it is about. */
export async function signFor(
  { privateKey }: DeviceKey,
  purpose: 'svc-device-auth-v1' | 'svc-device-knock-v1',
  hostFingerprint: string,
  about: Uint8Array,
): Promise<string> {
  const host = bytesOf(hostFingerprint.replaceAll(':', ''))
  if (host.length !== 32)
    throw new ApiError('unconfigured', `"${hostFingerprint}" is no SHA-256 of a certificate in hex`)
  const message = Uint8Array.from([...new TextEncoder().encode(purpose), 0, ...host, ...about])
  const raw = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, message)
  return base64(derSignature(new Uint8Array(raw)))
}
