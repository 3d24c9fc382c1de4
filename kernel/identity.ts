// The host's TLS identity: one self-signed certificate and its key, made at the first start.
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { HostIdentity } from 'svc-host/sdk'
import { keepAside, readIfThere, writeDurably } from './documents.ts'

/** SHA-256 of a certificate's DER in lowercase hex. */
export const fingerprintOf = (certificate: X509Certificate): string =>
  certificate.fingerprint256.replaceAll(':', '').toLowerCase()

/** Reads a pair that belongs together; undefined: it does not, or is no certificate and key at all. */
function pair(certificatePem: string, privateKeyPem: string): HostIdentity | undefined {
  try {
    const certificate = new X509Certificate(certificatePem)
    if (!certificate.checkPrivateKey(createPrivateKey(privateKeyPem))) return undefined
    return { certificatePem, privateKeyPem, fingerprint: fingerprintOf(certificate) }
  } catch {
    return undefined
  }
}

/** Reads the identity, or makes one. Paired devices know the host by it, so that a broken one is kept aside. */
export async function loadIdentity(
  configDir: string,
  warn: (message: string) => void,
): Promise<HostIdentity> {
  const certificatePath = join(configDir, 'native-cert.pem')
  const keyPath = join(configDir, 'native-key.pem')
  const [certificatePem, privateKeyPem] = await Promise.all([certificatePath, keyPath].map(readIfThere))
  const found = certificatePem && privateKeyPem && pair(certificatePem, privateKeyPem)
  if (found) {
    await chmod(keyPath, 0o600)
    return found
  }
  if (certificatePem !== undefined) {
    const aside = [basename(await keepAside(certificatePath))]
    if (privateKeyPem !== undefined) aside.push(basename(await keepAside(keyPath)))
    warn(
      `the host's certificate has no key that fits; kept as ${aside.join(' and ')}. A new identity is made: devices must pair again`,
    )
  }
  const made = await generate()
  // The key first: a crash in between leaves a key that nobody has pinned, and the next start makes both again.
  await writeDurably(keyPath, made.privateKeyPem)
  await writeDurably(certificatePath, made.certificatePem, 0o644)
  return made
}

/** ECDSA P-256, a common name only (it names no host; clients pin it), valid for fifty years. */
async function generate(): Promise<HostIdentity> {
  await import('reflect-metadata')
  const { cryptoProvider, PemConverter, X509CertificateGenerator } = await import('@peculiar/x509')
  cryptoProvider.set(webcrypto as never)
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const now = Date.now()
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=svc-host',
    // A day back, for clients whose clock is behind.
    notBefore: new Date(now - 86_400_000),
    notAfter: new Date(now + 50 * 365.25 * 86_400_000),
    signingAlgorithm: algorithm,
    keys: keys as never,
  })
  const key = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  const certificatePem = `${certificate.toString('pem')}\n`
  const privateKeyPem = `${PemConverter.encode(key, PemConverter.PrivateKeyTag)}\n`
  return pair(certificatePem, privateKeyPem)!
}
