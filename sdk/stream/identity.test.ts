// The client's identity on disk, its certificate as others read it, and the pinned hosts.
import { execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { derInteger, derTime, selfSigned } from './certificate.ts'
import { loadIdentity } from './identity.ts'
import { parseKnownHosts } from './known-hosts.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'svc-identity-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const host = (address: string, digit: string) => ({
  address,
  fingerprint: digit.repeat(64),
  name: 'Den',
  id: '0123456789ABCDEF',
  pairedUnix: 1,
})

describe('the certificate', () => {
  it('is read and verified by node:crypto', () => {
    const { keyPem, certificatePem } = selfSigned('svc client', new Date('2026-05-06T07:08:09Z'))
    const certificate = new X509Certificate(certificatePem)
    expect(certificate.subject).toBe('CN=svc client')
    expect(certificate.issuer).toBe('CN=svc client')
    expect(certificate.verify(certificate.publicKey)).toBe(true)
    expect(certificate.checkPrivateKey(createPrivateKey(keyPem))).toBe(true)
    expect(certificate.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
    expect(new Date(certificate.validFrom).toISOString()).toBe('2026-05-05T07:08:09.000Z')
    expect(new Date(certificate.validTo).toISOString()).toBe('9999-12-31T23:59:59.000Z')
    expect(certificate.ca).toBe(false)
  })
  it('is read and verified by openssl, whatever its random parts', () => {
    for (let i = 0; i < 5; i++) {
      const path = join(dir, 'c.pem')
      writeFileSync(path, selfSigned('svc client').certificatePem)
      const text = execFileSync('openssl', ['x509', '-in', path, '-noout', '-text'], { encoding: 'utf8' })
      expect(text).toContain('ecdsa-with-SHA256')
      expect(text).toContain('TLS Web Client Authentication')
      const verdict = execFileSync('openssl', [
        'verify',
        '-check_ss_sig',
        '-partial_chain',
        '-CAfile',
        path,
        path,
      ])
      expect(verdict.toString()).toContain(': OK')
    }
  })
  it('encodes integers and times as DER asks', () => {
    const hex = (bytes: Buffer) => bytes.toString('hex')
    expect(hex(derInteger(Buffer.from('00007f', 'hex')))).toBe('02017f')
    expect(hex(derInteger(Buffer.from('80', 'hex')))).toBe('02020080')
    expect(hex(derInteger(Buffer.from([0])))).toBe('020100')
    expect(derTime(new Date('2049-12-31T23:59:59Z')).toString('latin1')).toBe('\x17\r491231235959Z')
    expect(derTime(new Date('2050-01-01T00:00:00Z')).toString('latin1')).toBe('\x18\x0f20500101000000Z')
  })
})

describe('the identity', () => {
  it('is made once, stays, and only its owner can read it', async () => {
    const own = join(dir, 'new', 'folder')
    const first = await loadIdentity(own)
    expect(first.fingerprint).toMatch(/^[0-9a-f]{64}$/)
    expect(statSync(own).mode & 0o777).toBe(0o700)
    expect(statSync(join(own, 'identity.pem')).mode & 0o777).toBe(0o600)
    expect(readdirSync(own)).toEqual(['identity.pem'])
    expect((await loadIdentity(own)).fingerprint).toBe(first.fingerprint)
  })
  it('is one and the same for clients that make it at the same time', async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => loadIdentity(dir)))
    expect(new Set(all.map(identity => identity.fingerprint)).size).toBe(1)
    expect(readdirSync(dir)).toEqual(['identity.pem'])
  })
  it('is refused with the file named when it is broken or the folder cannot be made', async () => {
    writeFileSync(join(dir, 'identity.pem'), 'nonsense')
    await expect(loadIdentity(dir)).rejects.toMatchObject({
      code: 'identity',
      message: expect.stringContaining('identity.pem'),
    })
    await expect(loadIdentity(join(dir, 'identity.pem', 'x'))).rejects.toMatchObject({ code: 'identity' })
  })
})

describe('known hosts', () => {
  it('are pinned, replaced by address or fingerprint, forgotten, and there for the next run', async () => {
    const { hosts } = await loadIdentity(dir)
    await hosts.pin(host('a:9777', 'a'))
    await hosts.pin(host('b:9777', 'b'))
    await hosts.pin(host('a:9777', 'c'))
    await hosts.pin(host('d:9777', 'b'))
    expect(statSync(join(dir, 'hosts.json')).mode & 0o777).toBe(0o600)
    const again = (await loadIdentity(dir)).hosts
    expect(again.list().map(h => h.address)).toEqual(['a:9777', 'd:9777'])
    expect(again.byAddress('a:9777')?.fingerprint).toBe('c'.repeat(64))
    expect(again.byFingerprint('b'.repeat(64))?.address).toBe('d:9777')
    expect(await again.forget('c'.repeat(64))).toBe(true)
    expect(await again.forget('nobody:1')).toBe(false)
    expect((await loadIdentity(dir)).hosts.list()).toHaveLength(1)
  })
  it('in a broken file are refused, never read as none: a pin must not be lost unasked', async () => {
    writeFileSync(join(dir, 'hosts.json'), '{"hosts":[{"address":"a:1"}]}')
    await expect(loadIdentity(dir)).rejects.toMatchObject({ code: 'identity' })
    expect(readFileSync(join(dir, 'hosts.json'), 'utf8')).toContain('a:1')
  })
  it('parse or throw, for any text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), text => {
        let hosts: unknown
        try {
          hosts = parseKnownHosts(text)
        } catch (error) {
          expect(error).toBeInstanceOf(Error)
          return
        }
        expect(Array.isArray(hosts)).toBe(true)
      }),
      { numRuns: 300, seed: 5 },
    )
  })
})
