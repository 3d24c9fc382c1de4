// A browser's key from its first knock to its last call: proven, paired, refused, over real HTTPS.
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import fc from 'fast-check'
import { PairingWindow } from 'svc-host/api/pairing'
import { CertificateIdentity, defineExtension, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { initiate, pairingChannel } from '../../sdk/stream/cpace.ts'
import { exchangeId, knockMessage, readDeviceKey, tokenMessage } from './key.ts'
import { createNonces, createTokens } from './spent.ts'

const plane: InlineExtension = {
  manifest: { id: 'plane', requires: { 'pairing.window': '^1.0.0' } },
  extension: defineExtension({
    deps: { pairing: PairingWindow },
    setup(ctx, { pairing }) {
      const common = {
        method: 'GET',
        summary: 'x',
        replies: { 204: null },
        handler: () => undefined,
      } as const
      ctx.route(
        route({ ...common, path: '/of-devices', id: 'ofDevices', lanes: { plugin: false, device: 'any' } }),
        route({ ...common, path: '/of-admins', id: 'ofAdmins', lanes: { plugin: false, device: false } }),
      )
      return ctx.effect('serve', () => pairing.serve())
    },
  }),
}

interface Browser {
  readonly key: string
  readonly fingerprint: string
  readonly sign: (message: Uint8Array) => string
}
const newBrowser = (namedCurve = 'P-256'): Browser => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve })
  const der = publicKey.export({ type: 'spki', format: 'der' })
  return {
    key: der.toString('base64'),
    fingerprint: createHash('sha256').update(der).digest('hex'),
    sign: message =>
      sign('sha256', message, { key: privateKey as KeyObject, dsaEncoding: 'der' }).toString('base64'),
  }
}

let host: TestHost
let ours: string
beforeAll(async () => {
  host = await startHost({ extensions: ['status', 'pairing', 'device-keys', plane] })
  ours = host.service(CertificateIdentity)!.fingerprint
})
afterAll(() => host?.stop())

const post = (step: string, body?: unknown) =>
  host.inject('POST', `/auth/device/${step}`, { token: null, body })
const challenge = async (): Promise<string> => (await post('challenge')).json.nonce
const ask = async (browser: Browser, nonce?: string) => {
  const fresh = nonce ?? (await challenge())
  const signature = browser.sign(tokenMessage(ours, fresh))
  return post('token', { device_key: browser.key, nonce: fresh, signature })
}
const knock = (browser: Browser, name = 'Sofa') =>
  post('knock', { device_key: browser.key, name, signature: browser.sign(knockMessage(ours, name)) })
const reach = async (path: string, token: string): Promise<number> =>
  (await host.inject('GET', path, { token })).status

test('a key knocks, is approved, has a token for what devices may, and nothing once it is unpaired', async () => {
  const browser = newBrowser()
  expect((await knock(browser)).status).toBe(202)
  expect((await ask(browser)).status).toBe(401)
  const { json: pending } = await host.inject('GET', '/native/pending')
  const row = pending.find(({ fingerprint }: Browser) => fingerprint === browser.fingerprint)
  expect(row).toMatchObject({ name: 'Sofa' })
  await host.inject('POST', `/native/pending/${row.id}/approve`, { body: {} })
  const { status, json } = await ask(browser)
  expect([status, json.fingerprint]).toEqual([200, browser.fingerprint])
  expect(json.token).toMatch(/^[0-9a-f]{64}$/)
  expect(json.expires_at - Date.now() / 1000).toBeGreaterThan(3590)
  expect([await reach('/of-devices', json.token), await reach('/of-admins', json.token)]).toEqual([204, 401])
  await host.inject('DELETE', `/native/clients/${browser.fingerprint}`)
  expect(await reach('/of-devices', json.token)).toBe(401)
  expect((await ask(browser)).status).toBe(401)
})

test('a token is over once its access is, and with the extension', async () => {
  const browser = newBrowser()
  await knock(browser)
  const { json: pending } = await host.inject('GET', '/native/pending')
  const { id } = pending.find(({ fingerprint }: Browser) => fingerprint === browser.fingerprint)
  await host.inject('POST', `/native/pending/${id}/approve`, { body: {} })
  const { json } = await ask(browser)
  await host.inject('PATCH', `/native/clients/${browser.fingerprint}`, { body: { expires_in_secs: 0 } })
  expect(await reach('/of-devices', json.token)).toBe(401)
  await host.inject('PATCH', `/native/clients/${browser.fingerprint}`, { body: { expires_in_secs: 600 } })
  expect(await reach('/of-devices', json.token)).toBe(204)
  for (const enabled of [false, true]) await host.extensions.enable('device-keys', enabled)
  expect(await reach('/of-devices', json.token)).toBe(401)
})

test('every way to get a token wrongly is the same 401, and spends the nonce', async () => {
  const browser = newBrowser()
  await knock(browser)
  const { json: pending } = await host.inject('GET', '/native/pending')
  const { id } = pending.find(({ fingerprint }: Browser) => fingerprint === browser.fingerprint)
  await host.inject('POST', `/native/pending/${id}/approve`, { body: {} })
  const nonce = await challenge()
  const other = newBrowser()
  const wrong = [
    { device_key: browser.key, nonce, signature: other.sign(tokenMessage(ours, nonce)) },
    // Right, but the nonce is spent.
    { device_key: browser.key, nonce, signature: browser.sign(tokenMessage(ours, nonce)) },
    { device_key: other.key, nonce: await challenge(), signature: '' },
    { device_key: 'AAAA', nonce: 'x', signature: 'y' },
  ]
  const strange = await challenge()
  const elsewhere = 'f'.repeat(64)
  wrong.push({
    device_key: browser.key,
    nonce: strange,
    signature: browser.sign(tokenMessage(elsewhere, strange)),
  })
  const answers = []
  for (const body of wrong) answers.push(await post('token', body))
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
  expect(answers[0]!.status).toBe(401)
  expect((await ask(browser)).status).toBe(200)
})

test('a key is paired by PIN in two requests; a wrong PIN pairs nothing and spends the window', async () => {
  const browser = newBrowser()
  const sid = exchangeId(ours, browser.fingerprint)
  const ci = pairingChannel(Buffer.from(browser.fingerprint, 'hex'), Buffer.from(ours, 'hex'))
  const attempt = async (pin: string) => {
    const mine = initiate({ prs: Buffer.from(pin), ci, sid })
    const share = Buffer.from(mine.share).toString('base64')
    const first = await post('pair', { step: 'share', device_key: browser.key, name: 'Tab', share })
    if (first.status !== 200) return first.status
    const outcome = mine.finish(Buffer.from(first.json.share, 'base64'))!
    const second = await post('pair', {
      step: 'confirm',
      confirm: Buffer.from(outcome.tag).toString('base64'),
    })
    if (second.status !== 200) return second.status
    return outcome.verify(Buffer.from(second.json.confirm, 'base64'))
  }
  expect(await attempt('1234')).toBe(401)
  const arm = async (): Promise<string> =>
    (await host.inject('POST', '/native/pair/arm', { body: {} })).json.pin
  const pin = await arm()
  expect(await attempt(pin === '0000' ? '0001' : '0000')).toBe(401)
  expect((await post('pair', { step: 'confirm', confirm: 'AAAA' })).status).toBe(401)
  const next = await arm()
  // The pace: attempts are 2 s apart.
  expect(await attempt(next)).toBe(429)
  await new Promise(done => setTimeout(done, 2100))
  expect(await attempt(next)).toBe(true)
  expect((await ask(browser)).status).toBe(200)
  const { json: clients } = await host.inject('GET', '/native/clients')
  expect(clients).toContainEqual(expect.objectContaining({ name: 'Tab', fingerprint: browser.fingerprint }))
})

test('a key that is none, or signed by another, does not knock', async () => {
  const [browser, other] = [newBrowser(), newBrowser()]
  const body = { device_key: browser.key, name: 'x', signature: other.sign(knockMessage(ours, 'x')) }
  expect((await post('knock', body)).status).toBe(400)
  expect((await knock(newBrowser('P-384'))).status).toBe(400)
  expect((await post('knock', { ...body, device_key: 1 })).status).toBe(400)
  expect((await post('pair', { step: 'other' })).status).toBe(400)
})

test('whatever is said to be a key is read without harm, and only in its one form', () => {
  const { key, fingerprint, sign: signed } = newBrowser()
  expect(readDeviceKey(key)?.fingerprint).toBe(fingerprint)
  expect(readDeviceKey(`${key}\n`)).toBeUndefined()
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String({ maxLength: 200 })), text => {
      expect(readDeviceKey(text)).toBeUndefined()
      expect(readDeviceKey(key)!.hasSigned(Buffer.from('x'), text)).toBe(false)
    }),
  )
  const der = Buffer.from(key, 'base64')
  fc.assert(
    fc.property(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const bent = Buffer.from(der)
      bent[at]! ^= flip
      expect(readDeviceKey(bent.toString('base64'))?.fingerprint).not.toBe(fingerprint)
    }),
  )
  expect(readDeviceKey(key)!.hasSigned(Buffer.from('x'), signed(Buffer.from('x')))).toBe(true)
})

test('nonces and tokens end with their time, and one caller cannot use up those of others', () => {
  let now = 0
  const nonces = createNonces(() => now)
  const first = nonces.issue('a')
  for (let i = 0; i < 5000; i++) nonces.issue('b')
  expect([nonces.spend(first), nonces.spend(first)]).toEqual([true, false])
  const late = nonces.issue('a')
  now += 60_000
  expect(nonces.spend(late)).toBe(false)
  const tokens = createTokens(() => now)
  const kept = tokens.issue('f')
  const given = Array.from({ length: 20 }, () => tokens.issue('g'))
  expect(given.map(token => tokens.fingerprintOf(token) ?? 'gone').filter(x => x === 'gone')).toHaveLength(4)
  expect(tokens.fingerprintOf(kept)).toBe('f')
  now += 3_600_000
  expect(tokens.fingerprintOf(kept)).toBeUndefined()
})
