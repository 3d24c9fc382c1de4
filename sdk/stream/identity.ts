// The client's own key and certificate, kept in a folder that nobody else can read.
import { createHash, randomBytes, X509Certificate } from 'node:crypto'
import { chmod, link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { selfSigned } from './certificate.ts'
import { StreamError } from './error.ts'
import { type KnownHosts, openKnownHosts } from './known-hosts.ts'

/** SHA-256 of a certificate's DER, 64 lowercase hex characters (PROTOCOL.md, section 2). */
export const fingerprintOf = (certificateDer: Uint8Array): string =>
  createHash('sha256').update(certificateDer).digest('hex')

/** Who this client is, and whom it knows. The key never leaves the folder but for the TLS handshake. */
export interface Identity {
  readonly dir: string
  /** 64 lowercase hex characters. */
  readonly fingerprint: string
  readonly keyPem: string
  readonly certificatePem: string
  readonly hosts: KnownHosts
}

const file = 'identity.pem'

/** Key and certificate stand in one file and appear at once, so that they cannot belong to different pairs. */
const create = async (dir: string, path: string, commonName: string): Promise<void> => {
  const made = selfSigned(commonName)
  const temporary = join(dir, `.${file}.${randomBytes(6).toString('hex')}`)
  const handle = await open(temporary, 'wx', 0o600)
  try {
    await handle.writeFile(made.keyPem + made.certificatePem)
    await handle.sync()
  } finally {
    await handle.close()
  }
  try {
    await link(temporary, path)
  } catch (error) {
    // Another client of this folder was first; its identity is as good.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

const block = (text: string, label: string): string | undefined =>
  new RegExp(`-----BEGIN ${label}-----[A-Za-z0-9+/=\\s]+-----END ${label}-----\\n?`).exec(text)?.[0]

/**
 * Reads the identity in `dir`, making folder (0700), key and certificate (0600) on first use. The certificate's
 * common name carries nothing about the user. Rejects with `identity` when the folder or a file is not usable.
 */
export const loadIdentity = async (dir: string): Promise<Identity> => {
  const path = join(dir, file)
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    let text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (text === undefined) {
      await create(dir, path, 'svc client')
      text = await readFile(path, 'utf8')
    }
    await chmod(path, 0o600)
    const keyPem = block(text, 'PRIVATE KEY')
    const certificatePem = block(text, 'CERTIFICATE')
    if (!keyPem || !certificatePem) throw new Error('it holds no private key or no certificate')
    const fingerprint = fingerprintOf(new X509Certificate(certificatePem).raw)
    return { dir, fingerprint, keyPem, certificatePem, hosts: await openKnownHosts(join(dir, 'hosts.json')) }
  } catch (error) {
    if (error instanceof StreamError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new StreamError(
      'identity',
      `cannot use the identity ${path}: ${why}; give another folder, or remove that file to be a new client`,
      { cause: error },
    )
  }
}
