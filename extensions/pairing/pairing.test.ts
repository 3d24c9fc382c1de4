// Pairing through the real kernel: routes, window, exchange, roster on disk, events.

import { createHash, createHmac } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { defineExtension } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PairingExchange, PairingQueue, PairingWindow } from './api.ts'
import { generator, lvCat, readShare, sessionKey } from './cpace.ts'

const host32 = 'b'.repeat(64)
const sid = Buffer.alloc(32, 3)
const none = new Uint8Array(0)
let host: TestHost
let window: PairingWindow
let queue: PairingQueue
let stopServing = (): void => {}

beforeAll(async () => {
  const plane = {
    manifest: { id: 'plane', requires: { 'pairing.queue': '^1.0.0', 'pairing.window': '^1.0.0' } },
    extension: defineExtension({
      deps: { pairing: PairingWindow, knocks: PairingQueue },
      setup: (_ctx, { pairing, knocks }) => {
        window = pairing
        queue = knocks
      },
    }),
  }
  host = await startHost({ extensions: ['status', 'pairing', plane] })
})
afterAll(() => host?.stop())

const device = (n: number): string => n.toString(16).padStart(64, '0')
const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** The client's side of an exchange, with the test's own arithmetic around the group. */
const exchange = (fingerprint: string, pin: string, address = '127.0.0.1') => {
  const ci = lvCat(Buffer.from('svc/1 pair'), Buffer.from(fingerprint, 'hex'), Buffer.from(host32, 'hex'))
  const secret = 1234567n
  const share = generator({ prs: Buffer.from(pin), ci, sid })
    .multiply(secret)
    .toBytes()
  const begun = window.begin({ fingerprint, name: 'Sofa', address, hostFingerprint: host32, sid, share })
  const tags = (yb: Uint8Array) => {
    const shared = readShare(yb)!.multiply(secret).toBytes()
    const isk = sessionKey(sid, shared, { share, ad: none }, { share: yb, ad: none })
    const key = createHash('sha512').update('CPaceMac').update(sid).update(isk).digest()
    const tag = (of: Uint8Array) => createHmac('sha512', key).update(lvCat(of, none)).digest().subarray(0, 32)
    return { mine: tag(share), theirs: tag(yb) }
  }
  return { begun, tags }
}
const begun = (result: ReturnType<typeof exchange>['begun']): PairingExchange => {
  if ('refused' in result) throw new Error(result.refused)
  return result
}

test('without a plane nothing can be armed or unpaired', async () => {
  expect((await host.inject('GET', '/native/pair')).json).toEqual({
    enabled: false,
    armed: false,
    pin: null,
    expires_in_secs: null,
    paired_clients: 0,
  })
  for (const [method, path] of [
    ['POST', '/native/pair/arm'],
    ['DELETE', '/native/pair'],
    ['DELETE', '/native/clients'],
    ['DELETE', `/native/clients/${device(1)}`],
    ['POST', '/native/pending/0/approve'],
    ['POST', '/native/pending/0/deny'],
  ] as const) {
    expect((await host.inject(method, path)).status, path).toBe(503)
  }
  stopServing = window.serve()
  expect((await host.inject('GET', '/native/pair')).json.enabled).toBe(true)
})

test('arming refuses what is out of range and leaves no window', async () => {
  for (const [body, status] of [
    [{ fingerprint: 'xyz' }, 400],
    [{ grants: 0x80 }, 400],
    [{ grants: -1 }, 400],
    [{ ttl_secs: 'long' }, 422],
  ] as const) {
    const answer = await host.inject('POST', '/native/pair/arm', { body })
    expect(answer.status, JSON.stringify(body)).toBe(status)
    expect(answer.json.error).toEqual(expect.any(String))
  }
  expect((await host.inject('GET', '/native/pair')).json.armed).toBe(false)
})

test('a device that knows the PIN is paired, stored and announced; the PIN is nowhere but in the answer', async () => {
  const armed = await host.inject('POST', '/native/pair/arm', {
    body: { ttl_secs: 5, grants: 3, fingerprint: ' ' },
  })
  expect(armed.json).toMatchObject({ armed: true, expires_in_secs: 15 })
  const { pin } = armed.json
  expect(pin).toMatch(/^\d{4}$/)

  const { begun: answer, tags } = exchange(device(1), pin)
  const { share, confirm } = begun(answer)
  expect((await host.inject('GET', '/native/pair')).json).toMatchObject({ armed: false, pin: null })
  const { mine, theirs } = tags(share)
  const done = await confirm(mine)
  expect('tag' in done && Buffer.from(done.tag).equals(theirs)).toBe(true)
  // A second proof of the same exchange pairs nothing more.
  expect(await confirm(mine)).toEqual({ refused: 'no-window' })

  const row = {
    name: 'Sofa',
    fingerprint: device(1),
    grants: 3,
    expires_unix: null,
    granted_unix: expect.any(Number),
    access_level: 'custom',
  }
  expect((await host.inject('GET', '/native/clients')).json).toEqual([row])
  const file = join(host.configDir, 'native-paired.json')
  expect(JSON.parse(readFileSync(file, 'utf8')).clients).toHaveLength(1)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const reference = { name: 'Sofa', fingerprint: device(1), plane: 'native' }
  expect(host.events().filter(e => /^(pairing|access)/.test(e.kind))).toMatchObject([
    { kind: 'pairing.completed', device: reference },
    { kind: 'access.granted', device: reference, grants: 3 },
  ])
  expect(JSON.stringify(host.logs)).not.toContain(pin)
  expect(
    JSON.stringify(
      host
        .events()
        .filter(e => /^(pairing|access)/.test(e.kind))
        .map(e => ({ ...e, ts_ms: 0, seq: 0 })),
    ),
  ).not.toContain(`"${pin}"`)
  expect((await host.inject('GET', '/status')).json.native_paired_clients).toBe(1)
})

test('a wrong PIN spends the window; too soon, from outside or for another device it is not spent', async () => {
  await sleep(2000)
  const { pin } = (await host.inject('POST', '/native/pair/arm')).json
  expect(exchange(device(2), pin, '8.8.8.8').begun).toEqual({ refused: 'outside-lan' })
  const identity = Buffer.alloc(32)
  const bad = {
    fingerprint: device(2),
    name: '',
    address: '127.0.0.1',
    hostFingerprint: host32,
    sid,
    share: identity,
  }
  expect(window.begin(bad)).toEqual({ refused: 'bad-share' })
  const wrong = String((Number(pin) + 1) % 10_000).padStart(4, '0')
  const { begun: answer, tags } = exchange(device(2), wrong)
  const { share, confirm } = begun(answer)
  expect(await confirm(tags(share).mine)).toEqual({ refused: 'wrong-pin' })
  expect(exchange(device(2), pin).begun).toEqual({ refused: 'no-window' })

  await host.inject('POST', '/native/pair/arm', { body: { fingerprint: device(3).toUpperCase() } })
  expect(exchange(device(2), pin).begun).toEqual({ refused: 'other-device' })
  expect(exchange(device(3), pin).begun).toMatchObject({ refused: 'pace', retryAfterMs: expect.any(Number) })
  expect((await host.inject('GET', '/native/pair')).json.armed).toBe(true)
  expect((await host.inject('DELETE', '/native/pair')).status).toBe(204)
  expect((await host.inject('GET', '/native/pair')).json.armed).toBe(false)
  expect((await host.inject('GET', '/native/clients')).json).toHaveLength(1)
})

test('access and name are edited, and the device unpaired', async () => {
  const path = `/native/clients/${device(1).toUpperCase()}`
  expect(
    (await host.inject('PATCH', path, { body: { expires_in_secs: 5, clear_expiry: true } })).status,
  ).toBe(400)
  expect((await host.inject('PATCH', path, { body: { grants: 0x100 } })).status).toBe(400)
  expect((await host.inject('PATCH', `/native/clients/${device(9)}`, { body: {} })).status).toBe(404)
  const edited = await host.inject('PATCH', path, {
    body: { grants: 0, expires_in_secs: 60, name: ' TV\u0000 ' },
  })
  expect(edited.json).toMatchObject({
    name: 'TV',
    grants: 0,
    access_level: 'view',
    expires_unix: expect.any(Number),
  })
  expect(host.events().at(-1)).toMatchObject({
    kind: 'access.changed',
    grants: 0,
    expires_unix: expect.any(Number),
  })
  expect((await host.inject('PATCH', path, { body: { clear_expiry: true } })).json.expires_unix).toBeNull()
  expect((await host.inject('DELETE', path)).status).toBe(204)
  expect((await host.inject('DELETE', path)).status).toBe(404)
  expect((await host.inject('DELETE', '/native/clients')).json).toEqual({ unpaired: 0 })
})

const knock = (n: number, name = 'Sofa', address = '192.168.0.7') => {
  const parked = queue.knock({ fingerprint: device(n), name, address })
  if ('refused' in parked) throw new Error(parked.refused)
  return parked
}
const pending = async (): Promise<any[]> => (await host.inject('GET', '/native/pending')).json
const approve = async (id: unknown, body: object = {}) =>
  host.inject('POST', `/native/pending/${id}/approve`, { body })
const told = (since: number) =>
  host
    .events()
    .filter(({ seq, kind }) => seq > since && /^(pairing|access)/.test(kind))
    .map(({ kind, device: about, grants }: any) => [kind, about.name, grants].filter(v => v !== undefined))
const newest = (): number => host.events().at(-1)?.seq ?? 0

test('a device that knocks is listed under a name fit to be read, and let in with what was chosen', async () => {
  const since = newest()
  const first = knock(4, 'Tele\u202evision\u200b\u0007')
  const second = knock(4, 'Television 2')
  expect(await first.answer).toBe('replaced')
  const [row, ...more] = await pending()
  expect(more).toEqual([])
  expect(row).toEqual({
    id: expect.any(Number),
    name: 'Television 2',
    fingerprint: device(4),
    age_secs: 0,
    source: 'lan',
    grants: null,
    expires_unix: null,
    granted_unix: null,
    access_level: null,
  })
  expect((await host.inject('GET', '/local/summary')).json.pending_approvals).toBe(1)
  for (const [body, status] of [
    [{ grants: 0x80 }, 400],
    [{ name: 7 }, 422],
    [{ expires_in_secs: -1 }, 422],
  ] as const) {
    expect((await approve(row.id, body)).status, JSON.stringify(body)).toBe(status)
  }
  expect((await approve(999)).json).toEqual({ error: 'pending device not found' })
  for (const id of ['x', '-1', '1e3', '0x0']) expect((await approve(id)).status, id).toBe(400)
  expect(await pending()).toHaveLength(1)

  const approved = await approve(row.id, { name: ' Den\u2066 TV ', grants: 1, expires_in_secs: 60 })
  expect(approved.json).toMatchObject({
    name: 'Den TV',
    fingerprint: device(4),
    grants: 1,
    access_level: 'controller',
    expires_unix: approved.json.granted_unix + 60,
  })
  expect(await second.answer).toBe('approved')
  expect([await pending(), (await approve(row.id)).status]).toEqual([[], 404])
  expect(told(since)).toEqual([
    ['pairing.pending', 'Television'],
    ['pairing.completed', 'Den TV'],
    ['access.granted', 'Den TV', 1],
  ])
  expect((await host.inject('GET', '/local/summary')).json.pending_approvals).toBe(0)
})

test('one whose access is over knocks as what it was, and keeps what nobody changes', async () => {
  const path = `/native/clients/${device(4)}`
  await host.inject('PATCH', path, { body: { expires_in_secs: 0 } })
  const over = knock(4, 'Television')
  const [row] = await pending()
  expect(row).toMatchObject({ name: 'Television', grants: 1, access_level: 'controller' })
  expect((await approve(row.id, { name: ' ' })).json).toMatchObject({
    name: 'Den TV',
    grants: 1,
    expires_unix: row.expires_unix,
  })
  expect(await over.answer).toBe('approved')
  const again = knock(4)
  await host.inject('PATCH', path, { body: { clear_expiry: true } })
  expect(await again.answer).toBe('approved')
  expect(await pending()).toEqual([])
})

test('one from outside this network is listed, but only a PIN that is bound to it lets it in', async () => {
  await sleep(2000)
  const outside = { fingerprint: device(5), name: 'Phone', address: '203.0.113.9' }
  expect(queue.knock(outside)).toEqual({ refused: 'outside-lan' })
  const [row] = await pending()
  expect(row).toMatchObject({ name: 'Phone', source: 'wan' })
  expect(await approve(row.id)).toMatchObject({
    status: 409,
    json: { error: 'approve is not possible for this device, arm a PIN for its fingerprint' },
  })
  const { pin } = (await host.inject('POST', '/native/pair/arm', { body: { fingerprint: row.fingerprint } }))
    .json
  const { begun: answer, tags } = exchange(device(5), pin, outside.address)
  const { share, confirm } = begun(answer)
  expect(await confirm(tags(share).mine)).toHaveProperty('tag')
  expect(await pending()).toEqual([])
})

test('one that is sent away may knock again, as another entry', async () => {
  const since = newest()
  const first = knock(6)
  const [{ id }] = (await pending()) as [any]
  expect((await host.inject('POST', `/native/pending/${id}/deny`)).status).toBe(204)
  expect((await host.inject('POST', `/native/pending/${id}/deny`)).status).toBe(404)
  expect(await first.answer).toBe('denied')
  const second = knock(6)
  expect((await pending())[0].id).toBeGreaterThan(id)
  expect(told(since)).toEqual([
    ['pairing.pending', 'Sofa'],
    ['pairing.denied', 'Sofa'],
    ['pairing.pending', 'Sofa'],
  ])
  second.leave()
  expect(await pending()).toHaveLength(1)
})

test('what cannot be stored lets nobody in: the device goes on waiting', async () => {
  const parked = knock(6)
  const [{ id }] = (await pending()) as [any]
  const file = join(host.configDir, 'native-paired.json')
  const before = readFileSync(file)
  rmSync(file)
  mkdirSync(join(file, 'in the way'), { recursive: true })
  const since = newest()
  expect(await approve(id)).toMatchObject({
    status: 500,
    json: { error: expect.stringContaining('nothing') },
  })
  expect(await pending()).toMatchObject([{ id, fingerprint: device(6) }])
  rmSync(file, { recursive: true })
  expect(told(since)).toEqual([])
  expect((await approve(id)).status).toBe(200)
  expect(await parked.answer).toBe('approved')
  expect(JSON.parse(readFileSync(file, 'utf8')).clients.length).toBe(
    JSON.parse(`${before}`).clients.length + 1,
  )
})

test('the list goes with the plane, and an id never comes back', async () => {
  const parked = knock(7)
  const [{ id }] = (await pending()) as [any]
  stopServing()
  expect(await parked.answer).toBe('stopping')
  expect(await pending()).toEqual([])
  expect(queue.knock({ fingerprint: device(7), name: '', address: undefined })).toEqual({
    refused: 'stopping',
  })
  await host.extensions.enable('pairing', false)
  await host.extensions.enable('pairing', true)
  stopServing = window.serve()
  knock(8, '\u200b')
  const [row] = await pending()
  expect(row).toMatchObject({ name: `device ${device(8).slice(0, 8)}` })
  expect(row.id).toBeGreaterThan(id)
  stopServing()
})
