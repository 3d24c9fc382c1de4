// Who may call what: the pure decision over every combination, and the same over real TLS with client certificates.
import { Agent } from 'node:https'
import type { DeviceRegistry, Lanes, PluginTokens } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { loadIdentity } from '../../kernel/identity.ts'
import { admit, type Credential, type Presented, sameSecret } from '../../kernel/lanes.ts'
import { adminToken, bearer, callHttps, owned, startFront, temporaryFolder } from './front-under-test.ts'

const plugins = [false, 'runner', 'own', 'all'] as const
const devices = [false, 'any', 'grant'] as const
const credentials: Credential[] = [
  'none',
  'unknown',
  'admin',
  { plugin: null, may: () => false },
  { plugin: 'mine', may: needed => needed === 'api:things' },
  { plugin: 'other', may: () => false },
]
const needs = 'api:things'

/** The order of checks, written down a second time as the table of wire-decisions reads. */
function expected(lanes: Lanes, { loopback, device, credential, target }: Presented): string {
  if (lanes === 'open') return 'open'
  const wrong = '401 missing or wrong credential'
  const lacks =
    typeof credential === 'object' && credential.plugin === 'other'
      ? '403 other has not been granted api:things'
      : undefined
  if (lanes === 'loopback') return loopback ? (lacks ?? 'loopback') : wrong
  if (lanes.device !== false && device) return `device ${device}`
  if (!loopback && credential !== 'none') return '401 admin calls are accepted on this machine only'
  if (credential === 'admin') return 'admin'
  if (credential === 'none' || credential === 'unknown') return wrong
  const id = credential.plugin
  const allowed = { all: true, own: true, runner: id === null, false: false }[String(lanes.plugin)]
  if (!allowed) return '403 not open to plugin tokens'
  if (lanes.plugin === 'own' && id !== null && id !== target)
    return '403 this token may only write its own id'
  return (lanes.plugin === 'all' && lacks) || `plugin ${id}`
}

test('every combination of lanes, peer and credential is decided as the table says', () => {
  const lanes: Lanes[] = [
    'open',
    'loopback',
    ...plugins.flatMap(plugin => devices.map(device => ({ plugin, device }))),
  ]
  let cases = 0
  for (const lane of lanes)
    for (const loopback of [true, false])
      for (const device of [undefined, 'f'.repeat(64)])
        for (const credential of credentials)
          for (const target of [undefined, 'mine']) {
            const presented = { address: '192.0.2.7', loopback, device, credential, target, needs }
            const got = admit(lane, presented)
            const text =
              'status' in got
                ? `${got.status} ${got.message}`
                : got.lane === 'device'
                  ? `device ${got.fingerprint}`
                  : got.lane === 'plugin'
                    ? `plugin ${got.id}`
                    : got.lane
            expect([lane, presented, text]).toEqual([lane, presented, expected(lane, presented)])
            cases++
          }
  expect(cases).toBe(14 * 2 * 2 * 6 * 2)
})

test('secrets of any length compare', () => {
  expect(sameSecret('abc', 'abc')).toBe(true)
  expect(sameSecret('abc', 'abd')).toBe(false)
  expect(sameSecret('abc', 'abcabc')).toBe(false)
  expect(sameSecret('', '')).toBe(true)
})

const show = (path: string, lanes: Lanes) =>
  owned({
    method: 'GET',
    path,
    summary: '',
    lanes,
    params: z.object({ id: z.string() }),
    replies: { 200: z.unknown() },
    handler: ({ caller }) => ({ ...caller, address: undefined }),
  })

test('certificates and bearers are looked up over TLS, on the lanes that take them', async () => {
  const device = await loadIdentity(temporaryFolder(), () => {})
  const stranger = await loadIdentity(temporaryFolder(), () => {})
  const registry: DeviceRegistry = {
    byFingerprint: async fingerprint =>
      fingerprint === device.fingerprint ? { fingerprint, grants: 0 } : undefined,
    byToken: async token =>
      token === 'device-token' ? { fingerprint: 'd'.repeat(64), grants: 0 } : undefined,
  }
  const tokens: PluginTokens = {
    resolve: async token => ({ runner: { id: null }, mine: { id: 'mine' } })[token],
  }
  const { front } = await startFront(
    [
      show('/admin/{id}', { plugin: false, device: false }),
      show('/device/{id}', { plugin: false, device: 'any' }),
      show('/own/{id}', { plugin: 'own', device: false }),
      show('/local/{id}', 'loopback'),
    ],
    { devices: () => registry, plugins: () => tokens },
  )
  const get = async (path: string, o: object = {}) => {
    const { status, json } = await callHttps(front.port, 'GET', `/api/v1${path}`, o)
    return status === 200 ? json : [status, (json as { error: string }).error]
  }
  const certificate = ({ certificatePem, privateKeyPem }: typeof device) => ({
    cert: certificatePem,
    key: privateKeyPem,
  })
  const wrong = [401, 'missing or wrong credential']

  expect(await get('/admin/x', { headers: bearer() })).toEqual({ lane: 'admin' })
  expect(await get('/admin/x', { headers: { authorization: `bearer  ${adminToken}` } })).toEqual({
    lane: 'admin',
  })
  expect(await get('/admin/x', { headers: { authorization: adminToken } })).toEqual(wrong)
  expect(await get('/admin/x')).toEqual(wrong)
  expect(await get('/admin/x', { headers: bearer('guess') })).toEqual(wrong)
  expect(await get('/admin/x', certificate(device))).toEqual(wrong)
  expect(await get('/admin/x', { headers: bearer('device-token') })).toEqual(wrong)
  expect(await get('/admin/x', { headers: bearer('runner') })).toEqual([403, 'not open to plugin tokens'])
  expect(await get('/device/x', certificate(device))).toEqual({
    lane: 'device',
    fingerprint: device.fingerprint,
  })
  expect(await get('/device/x', certificate(stranger))).toEqual(wrong)
  // A resumed TLS session still knows its certificate.
  const agent = new Agent({ ...certificate(device), rejectUnauthorized: false, maxVersion: 'TLSv1.2' })
  for (let i = 0; i < 3; i++)
    expect(await get('/device/x', { agent })).toEqual({ lane: 'device', fingerprint: device.fingerprint })
  expect(await get('/device/x', { headers: bearer('device-token') })).toMatchObject({ lane: 'device' })
  expect(await get('/own/mine', { headers: bearer('mine') })).toEqual({ lane: 'plugin', id: 'mine' })
  expect(await get('/own/x', { headers: bearer('runner') })).toEqual({ lane: 'plugin', id: null })
  expect(await get('/own/x', { headers: bearer('mine') })).toEqual([
    403,
    'this token may only write its own id',
  ])
  expect(await get('/local/x')).toEqual({ lane: 'loopback' })
})

test('with no provider the device and the plugin lane admit nobody', async () => {
  const { call } = await startFront([show('/all/{id}', { plugin: 'all', device: 'any' })])
  expect((await call('GET', '/api/v1/all/x', { headers: bearer('mine') })).status).toBe(401)
  expect((await call('GET', '/api/v1/all/x', { headers: bearer() })).status).toBe(200)
})
