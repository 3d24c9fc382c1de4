// Catalogs from real sources over HTTP: what is believed, what is refused, tiers, and versions that are blocked.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { packFolder, writePackage } from '../../test/harness/packages.ts'
import { type Registry, startRegistry } from '../../test/harness/registry.ts'
import { sha512Of } from '../plugins/source.ts'
import { parseIndex } from './fetch-index.ts'
import { isSigned } from './signature.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

const publicText = (key: KeyObject): string =>
  `ed25519:${key.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')}`
const vendor = generateKeyPairSync('ed25519')
const other = generateKeyPairSync('ed25519')

/** What the sources serve, by path. */
const pages = new Map<string, string | Buffer>()
let web: Server
let origin: string
let host: TestHost
let shop: string
beforeAll(async () => {
  shop = mkdtempSync(join(tmpdir(), 'svc-catalog-'))
  web = createServer((request, response) => {
    const page = pages.get(request.url!)
    if (page === '→') return response.writeHead(302, { location: '/index.json' }).end()
    response.writeHead(page === undefined ? 404 : 200).end(page)
  })
  await new Promise<void>(done => web.listen(0, '127.0.0.1', done))
  origin = `http://127.0.0.1:${(web.address() as AddressInfo).port}`
})
afterAll(async () => {
  await new Promise(done => web.close(done))
  rmSync(shop, { recursive: true })
})
beforeEach(async () => {
  pages.clear()
  const config = { catalog: { url: `${origin}/index.json`, publicKey: publicText(vendor.publicKey) } }
  host = await startHost({ extensions: ['plugins', 'catalog'], config })
})
afterEach(() => host.stop())

const integrity = `sha512-${Buffer.alloc(64).toString('base64')}`
const entry = { id: 'tiny', pkg: '@svc/plugin-tiny', title: 'Tiny', version: '1.0.0', integrity }
const publish = (index: object, { path = '/index.json', key = vendor.privateKey } = {}): void => {
  const bytes = Buffer.from(JSON.stringify({ version: 1, serial: 1, plugins: [entry], ...index }))
  pages.set(path, bytes)
  pages.set(`${path}.sig`, sign(null, bytes, key).toString('base64'))
}
const refresh = async () => (await host.inject('POST', '/store/refresh')).json

const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', ...argv)

test('what is signed is shown with what this host can make of it', async () => {
  publish({
    plugins: [
      { ...entry, minHost: '99.0.0', reviewedAt: 7 },
      { ...entry, id: 'other', pkg: '@svc/plugin-other', platforms: ['windows'] },
    ],
  })
  const { host: about, sources, plugins, busy } = await refresh()
  expect([about.platform, busy]).toEqual(['linux', false])
  expect(sources).toMatchObject([{ name: 'svc', builtin: true, signed: true, stale: false, entry_count: 2 }])
  expect(plugins).toMatchObject([
    {
      id: 'tiny',
      tier: 'verified',
      source: 'svc',
      compatible: false,
      min_host: '99.0.0',
      reviewed_at: 7,
      incompatible_reason: expect.stringContaining('needs host 99.0.0'),
    },
    { id: 'other', compatible: false, incompatible_reason: 'runs on windows only' },
  ])
  expect(plugins[0].integrity).toBeUndefined()
  expect(host.events().some(({ kind }) => kind === 'store.changed')).toBe(true)
})

test.each<[string, () => void, RegExp]>([
  ['another key', () => publish({}, { key: other.privateKey }), /not signed with the key/],
  [
    'no signature',
    () => {
      publish({})
      pages.delete('/index.json.sig')
    },
    /signature cannot be read: answered 404/,
  ],
  [
    'a changed index',
    () => {
      publish({})
      pages.set('/index.json', '{"version":1,"serial":1,"plugins":[]}')
    },
    /not signed/,
  ],
  ['an older serial', () => publish({ serial: 4 }), /older \(4\) than the one that is known \(5\)/],
  ['another shape', () => publish({ plugins: [{ ...entry, integrity: 'md5-x' }] }), /does not fit/],
  ['a redirect', () => pages.set('/index.json', '→'), /cannot be read/],
  ['too much', () => pages.set('/index.json', Buffer.alloc(9 * 2 ** 20)), /larger than/],
])('with %s the last good index stays, and the source says why', async (_name, spoil, why) => {
  publish({ serial: 5 })
  await refresh()
  spoil()
  const { sources, plugins } = await refresh()
  expect(sources[0].error).toMatch(why)
  expect(plugins).toMatchObject([{ id: 'tiny', version: '1.0.0' }])
})

test('sources are added, kept over a restart and removed; the built-in one stays as it is', async () => {
  publish(
    { plugins: [{ ...entry, id: 'lamp', pkg: '@acme/plugin-lamp' }] },
    { path: '/acme.json', key: other.privateKey },
  )
  const put = (name: string, body: object) => host.inject('PUT', `/store/sources/${name}`, { body })
  const source = { url: `${origin}/acme.json`, public_key: publicText(other.publicKey) }
  expect((await put('acme', source)).status).toBe(204)
  expect((await refresh()).plugins).toMatchObject([{ id: 'lamp', tier: 'external', source: 'acme' }])
  // The same address with another key is another source: nothing it has said stands.
  expect((await put('acme', { ...source, public_key: publicText(vendor.publicKey) })).status).toBe(204)
  expect((await refresh()).plugins).toEqual([])
  for (const body of [
    { url: 'http://example.org/x' },
    { url: 'file:///etc/passwd' },
    { url: 'no' },
    { ...source, public_key: 'rsa:x' },
  ])
    expect((await put('acme', body)).status).toBe(400)
  expect((await put('svc', source)).status).toBe(400)
  expect((await host.inject('DELETE', '/store/sources/svc')).status).toBe(403)
  await host.extensions.enable('catalog', false)
  await host.extensions.enable('catalog', true)
  expect((await host.inject('GET', '/store/sources')).json.map(({ name }: { name: string }) => name)).toEqual(
    ['svc', 'acme'],
  )
  for (const _ of [1, 2]) expect((await host.inject('DELETE', '/store/sources/acme')).status).toBe(204)
  expect((await host.inject('GET', '/store/sources')).json).toHaveLength(1)
})

test('an entry installs as verified when its package is what the index names, updates, and is blocked', async () => {
  const registry: Registry = await startRegistry('@svc')
  const before = { ...process.env }
  Object.assign(process.env, registry.env)
  const make = async (version: string) => {
    const folder = writePackage(mkdtempSync(join(shop, 'p-')), 'tiny', { pkg: '@svc/plugin-tiny', version })
    await registry.publish(folder)
    const meta = (await (await fetch(`${registry.url}@svc%2fplugin-tiny`)).json()) as {
      versions: Record<string, { dist: { integrity: string } }>
    }
    return { ...entry, version, integrity: meta.versions[version]!.dist.integrity }
  }
  const operate = async (path: string, body: object) => {
    const begun = await host.inject('POST', `/store/${path}`, { body })
    if (begun.status !== 202) return begun.json
    const job = async () => (await host.inject('GET', `/store/jobs/${begun.json.job}`)).json
    await expect.poll(async () => (await job()).state, { timeout: 60_000, interval: 50 }).not.toBe('running')
    return job()
  }
  const install = { source: 'svc', id: 'tiny', trust: true }
  const state = () => host.extensions.list().find(({ id }) => id === 'tiny')?.state
  try {
    const first = await make('1.0.0')
    publish({ plugins: [{ ...first, integrity }] })
    await refresh()
    expect(await operate('install', install)).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('sha512 differ'),
    })
    publish({ serial: 2, plugins: [first] })
    await refresh()
    expect(await operate('install', install)).toMatchObject({ state: 'done' })
    expect((await host.inject('GET', '/store/installed')).json).toMatchObject([
      { tier: 'verified', source: 'svc', entry_id: 'tiny', running: true },
    ])

    // The command takes the vendor's entry before any name in a registry.
    await operate('uninstall', { pkg: '@svc/plugin-tiny' })
    const added = await type('add', 'tiny', '--trust', '--json')
    expect(JSON.parse(added.out).data.jobs).toMatchObject([{ target: '@svc/plugin-tiny', state: 'done' }])
    expect((await type('search', 'ti')).out).toMatch(/tiny +1\.0\.0 +verified +svc +Tiny/)
    expect((await type('status')).out).toMatch(/@svc\/plugin-tiny +1\.0\.0 +verified +on/)
    expect(await type('add', 'tiny', '--source', 'acme')).toMatchObject({
      code: 2,
      err: expect.stringContaining('acme has no "tiny"'),
    })

    const second = await make('1.1.0')
    publish({
      serial: 3,
      plugins: [second],
      blocked: [{ pkg: '@svc/plugin-tiny', versions: '<1.1.0', reason: 'it leaks' }],
    })
    expect((await refresh()).plugins).toMatchObject([
      { version: '1.1.0', installed_version: '1.0.0', update_available: true },
    ])
    expect((await host.inject('GET', '/store/installed')).json).toMatchObject([
      { update_available: '1.1.0', blocked: 'it leaks (svc)', running: false },
    ])
    expect(state()).toBe('off')
    await host.extensions.enable('tiny', true)
    expect(await operate('update', { pkg: '@svc/plugin-tiny' })).toMatchObject({ state: 'done' })
    expect((await operate('rollback', { pkg: '@svc/plugin-tiny' })).error).toContain('is blocked: it leaks')
    expect(state()).toBe('on')
    const old = await packFolder(
      writePackage(mkdtempSync(join(shop, 'q-')), 'tiny', { pkg: '@svc/plugin-tiny', version: '1.0.9' }),
      join(shop, 'old.tgz'),
    )
    expect((await sha512Of(old)).startsWith('sha512-')).toBe(true)
    expect((await operate('install', { spec: `file:${old}`, accept_unverified: true })).error).toContain(
      'is blocked',
    )
  } finally {
    process.env = before
    await registry.stop()
  }
})

test('without an address and a key the built-in source offers nothing, and says so', async () => {
  const bare = await startHost({ extensions: ['plugins', 'catalog'] })
  try {
    const { json } = await bare.inject('GET', '/store/catalog')
    expect(json).toMatchObject({
      plugins: [],
      sources: [{ name: 'svc', stale: true, error: expect.stringContaining('SVC_CATALOG_URL') }],
    })
    expect(json.sources[0].fetched_at).toBeUndefined()
  } finally {
    await bare.stop()
  }
})

test('any bytes are an index or a sentence, and no other signature is taken for one', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.json().map(text => Buffer.from(text)),
      ),
      bytes => {
        expect(() => parseIndex(bytes, 0)).toThrow(/^the index (is not JSON|does not fit)/)
      },
    ),
  )
  const bytes = Buffer.from('index')
  const key = publicText(vendor.publicKey)
  const good = sign(null, bytes, vendor.privateKey).toString('base64')
  expect(isSigned(bytes, `${good}\n`, key)).toBe(true)
  fc.assert(fc.property(fc.oneof(fc.string(), fc.base64String()), text => !isSigned(bytes, text, key)))
  expect(isSigned(bytes, good, publicText(other.publicKey))).toBe(false)
  expect(isSigned(bytes, good, 'ed25519:AAAA')).toBe(false)
})
