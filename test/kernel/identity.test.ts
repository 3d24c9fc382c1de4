// The files of identity and access: made once, kept, tightened, and never half there.
import { X509Certificate } from 'node:crypto'
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { readLineValue } from 'svc-host/client'
import { expect, test } from 'vitest'
import { loadIdentity } from '../../kernel/identity.ts'
import { loadAdminToken, readAccess, writeEndpoint } from '../../kernel/tokens.ts'
import { temporaryFolder } from './front-under-test.ts'

const modeOf = (...path: string[]): number => statSync(join(...path)).mode & 0o777
const quiet = (message: string): never => {
  throw new Error(`unexpected warning: ${message}`)
}

test('the identity is a self-signed P-256 certificate that names no host, and is the same at the next start', async () => {
  const folder = temporaryFolder()
  const made = await loadIdentity(folder, quiet)
  const certificate = new X509Certificate(made.certificatePem)
  expect(certificate.subject).toBe('CN=svc-host')
  expect(certificate.subjectAltName).toBeUndefined()
  expect(certificate.verify(certificate.publicKey)).toBe(true)
  expect(certificate.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1')
  expect(certificate.validToDate.getFullYear()).toBeGreaterThan(new Date().getFullYear() + 40)
  expect(made.fingerprint).toMatch(/^[0-9a-f]{64}$/)
  expect(modeOf(folder, 'native-key.pem')).toBe(0o600)
  chmodSync(join(folder, 'native-key.pem'), 0o644)
  expect(await loadIdentity(folder, quiet)).toEqual(made)
  expect(modeOf(folder, 'native-key.pem')).toBe(0o600)
})

test('a certificate without its key, or with another, is kept aside and made again; a key alone is replaced', async () => {
  for (const harm of ['no key', 'other key', 'garbage'] as const) {
    const folder = temporaryFolder()
    const first = await loadIdentity(folder, quiet)
    const key = join(folder, 'native-key.pem')
    if (harm === 'no key') rmSync(key)
    else
      writeFileSync(
        key,
        harm === 'garbage' ? 'x' : (await loadIdentity(temporaryFolder(), quiet)).privateKeyPem,
      )
    const warnings: string[] = []
    const second = await loadIdentity(folder, message => warnings.push(message))
    expect(second.fingerprint).not.toBe(first.fingerprint)
    expect(warnings).toEqual([expect.stringMatching(/devices must pair again/)])
    const aside = readdirSync(folder).find(name => name.startsWith('native-cert.pem.broken-'))!
    expect(readFileSync(join(folder, aside), 'utf8')).toBe(first.certificatePem)
    expect(await loadIdentity(folder, quiet)).toEqual(second)
  }
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'native-key.pem'), 'left by a crash')
  expect((await loadIdentity(folder, quiet)).fingerprint).toMatch(/^[0-9a-f]{64}$/)
})

test('the admin token is made once, owner-only, 64 hex characters', async () => {
  const folder = temporaryFolder()
  const token = await loadAdminToken(folder, {}, quiet)
  expect(token).toMatch(/^[0-9a-f]{64}$/)
  expect(readFileSync(join(folder, 'mgmt-token'), 'utf8')).toBe(`SVC_MGMT_TOKEN=${token}\n`)
  expect(modeOf(folder, 'mgmt-token')).toBe(0o600)
  expect(await loadAdminToken(folder, {}, quiet)).toBe(token)
})

test('a token of the environment is saved and taken out of it; one that is no token stops the start', async () => {
  const folder = temporaryFolder()
  const env: NodeJS.ProcessEnv = { SVC_MGMT_TOKEN: 'my-own-token-of-my-choice' }
  expect(await loadAdminToken(folder, env, quiet)).toBe('my-own-token-of-my-choice')
  expect(env).toEqual({})
  expect(await loadAdminToken(folder, {}, quiet)).toBe('my-own-token-of-my-choice')
  await expect(loadAdminToken(folder, { SVC_MGMT_TOKEN: 'short' }, quiet)).rejects.toThrow(
    /16 to 256 visible/,
  )
})

test('an open token file is tightened and told of; one without a token is kept aside', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'mgmt-token')
  const token = await loadAdminToken(folder, {}, quiet)
  chmodSync(path, 0o644)
  const warnings: string[] = []
  expect(await loadAdminToken(folder, {}, message => warnings.push(message))).toBe(token)
  expect(modeOf(folder, 'mgmt-token')).toBe(0o600)
  expect(warnings).toEqual([expect.stringMatching(/was readable by others/)])
  writeFileSync(path, '# nothing\n', { mode: 0o600 })
  expect(await loadAdminToken(folder, {}, message => warnings.push(message))).not.toBe(token)
  expect(warnings[1]).toMatch(/holds no token; kept as .*mgmt-token\.broken-/)
})

test('access is read from what the host wrote; without it there is none', async () => {
  const folder = temporaryFolder()
  expect(await readAccess(folder)).toBeUndefined()
  const { certificatePem } = await loadIdentity(folder, quiet)
  const token = await loadAdminToken(folder, {}, quiet)
  for (const [host, url] of [
    ['::', 'https://127.0.0.1:5'],
    ['::1', 'https://[::1]:5'],
    ['192.0.2.1', 'https://127.0.0.1:5'],
  ]) {
    await writeEndpoint(folder, 5, host)
    expect(await readAccess(folder)).toEqual({ url, token, certificatePem })
  }
  expect(modeOf(folder, 'mgmt-endpoint')).toBe(0o644)
  writeFileSync(join(folder, 'mgmt-endpoint'), 'SVC_MGMT_URL=nonsense\n')
  expect(await readAccess(folder)).toBeUndefined()
})

test('line files: blank lines and comments are skipped, a bare value counts, anything else is undefined', () => {
  expect(readLineValue('\n # x\r\n\r\n KEY=abc \r\nOTHER=def')).toBe('abc')
  expect(readLineValue('abc')).toBe('abc')
  expect(readLineValue('KEY=a=b==')).toBe('a=b==')
  expect(readLineValue('KEY=')).toBeUndefined()
  expect(readLineValue('KEY=a b')).toBeUndefined()
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), text => {
      const value = readLineValue(text)
      expect(value === undefined || /^[\x21-\x7e]+$/.test(value)).toBe(true)
    }),
  )
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9a-f]{16,64}$/),
      fc.stringMatching(/^(\s*\n|\s*#[^\n]*\n)*$/),
      (token, noise) => {
        expect(readLineValue(`${noise}SVC_MGMT_TOKEN=${token}\n`)).toBe(token)
        expect(readLineValue(noise + token)).toBe(token)
      },
    ),
  )
})
