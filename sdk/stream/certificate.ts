// Makes a self-signed X.509 certificate for an ECDSA P-256 key: node:crypto reads certificates but makes none.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

const lengthOf = (length: number): number[] => {
  if (length < 0x80) return [length]
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest >>>= 8) bytes.unshift(rest & 0xff)
  return [0x80 | bytes.length, ...bytes]
}

/** One DER element (X.690): tag, length in the shortest form, contents. */
export const der = (tag: number, ...contents: Uint8Array[]): Buffer => {
  const body = Buffer.concat(contents)
  return Buffer.concat([Buffer.from([tag, ...lengthOf(body.length)]), body])
}

const sequence = (...contents: Uint8Array[]) => der(0x30, ...contents)
const boolean = (value: boolean) => der(0x01, Buffer.from([value ? 0xff : 0]))

/** An INTEGER from unsigned big-endian bytes: no superfluous zeros, and never negative. */
export const derInteger = (bytes: Uint8Array): Buffer => {
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  const body = bytes.subarray(start)
  return der(0x02, (body[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.from([0]), body]) : body)
}

const oid = (dotted: string): Buffer => {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) {
      groups.unshift((left & 0x7f) | 0x80)
    }
    bytes.push(...groups)
  }
  return der(0x06, Buffer.from(bytes))
}

/** RFC 5280, 4.1.2.5: two-digit years up to 2049, four digits from 2050 on. */
export const derTime = (date: Date): Buffer => {
  const digits = `${date.toISOString().slice(0, 19).replace(/[-:T]/g, '')}Z`
  return date.getUTCFullYear() < 2050
    ? der(0x17, Buffer.from(digits.slice(2)))
    : der(0x18, Buffer.from(digits))
}

const pem = (label: string, bytes: Buffer): string => {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}

/** A private key (PKCS #8) and its certificate, both PEM. */
export interface KeyAndCertificate {
  readonly keyPem: string
  readonly certificatePem: string
}

/**
 * Makes an ECDSA P-256 key and a certificate for it, signed by itself with SHA-256, valid from a day before `now`
 * without an end (RFC 5280, 4.1.2.5: 99991231235959Z): peers identify it by its fingerprint, never by its dates.
 */
export const selfSigned = (commonName: string, now = new Date()): KeyAndCertificate => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(oid('1.2.840.10045.4.3.2'))
  const name = sequence(der(0x31, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(commonName.slice(0, 64))))))
  const noEnd = new Date('9999-12-31T23:59:59Z')
  const extension = (id: string, critical: boolean, value: Buffer) =>
    sequence(oid(id), ...(critical ? [boolean(true)] : []), der(0x04, value))
  const extensions = sequence(
    extension('2.5.29.19', true, sequence()),
    extension('2.5.29.15', true, der(0x03, Buffer.from([7, 0x80]))),
    extension('2.5.29.37', false, sequence(oid('1.3.6.1.5.5.7.3.2'))),
  )
  const serial = randomBytes(16)
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const body = sequence(
    der(0xa0, derInteger(Buffer.from([2]))),
    derInteger(serial),
    algorithm,
    name,
    sequence(derTime(new Date(now.getTime() - 86_400_000)), derTime(noEnd)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = sign('sha256', body, { key: privateKey, dsaEncoding: 'der' })
  const certificate = sequence(body, algorithm, der(0x03, Buffer.from([0]), signature))
  return {
    keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificatePem: pem('CERTIFICATE', certificate),
  }
}
