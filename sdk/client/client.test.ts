// The client library against a real host: how it finds one, typed calls, events through lost connections.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect as connectTcp, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { type ApiClient, ApiError, connect, type Followed } from 'svc-host/client'
import { defineExtension, event, route } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { displayReleased } from '../../extensions/displays/api.ts'
import { fillPath } from './call.ts'
import { createBackoff } from './follow.ts'

const novelty = event('novelty.seen', z.object({ what: z.string() }))
/** Answers `GET /status` as no release ever did. */
const skewed = defineExtension({
  setup(ctx) {
    ctx.route(
      route({
        method: 'GET',
        path: '/status',
        summary: '',
        lanes: { plugin: false, device: false },
        replies: { 200: z.object({ sessions: z.string() }) },
        handler: () => ({ sessions: 'none' }),
      }),
    )
  },
})

let host: TestHost
let other: TestHost
beforeAll(async () => {
  host = await startHost({ extensions: ['discovery', 'status', 'events', 'logs'] })
  other = await startHost({ extensions: ['discovery', { manifest: { id: 'skewed' }, extension: skewed }] })
})
const clients: ApiClient[] = []
const later: (() => unknown)[] = []
afterEach(async () => {
  for (const client of clients.splice(0)) client.close()
  for (const undo of later.splice(0)) await undo()
})
afterAll(async () => {
  await host?.stop()
  await other?.stop()
})

const open = async (options: Parameters<typeof connect>[0]): Promise<ApiClient> => {
  const client = await connect({ env: {}, ...options })
  clients.push(client)
  return client
}
const folder = async (): Promise<string> => {
  const made = await mkdtemp(join(tmpdir(), 'svc-client-'))
  later.push(() => rm(made, { recursive: true }))
  return made
}
const admin = (at = host) => open({ configDir: at.configDir, token: at.adminToken })
const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'resolved',
    error => (error instanceof ApiError ? [error.code, error.status] : error),
  )

test('calls are typed by the document; answers, refusals and aborts come as they are', async () => {
  const client = await admin()
  expect((await client.call('GET', '/health')).status).toBe('ok')
  const { extensions } = await client.call('GET', '/extensions')
  expect(extensions.map(({ id }) => id)).toContain('status')
  const page = await client.call('GET', '/logs', { query: { limit: 1 } })
  expect(page.entries).toHaveLength(1)
  const put = (id: string) =>
    client.call('PUT', '/extensions/{id}', { path: { id }, body: { enabled: true } })
  expect((await put('status')).state).toBe('on')
  expect(await codeOf(put('a/b?c'))).toEqual(['refused', 404])
  expect(await codeOf(client.call('GET', '/status', { signal: AbortSignal.abort('enough') }))).toBe('enough')
  // @ts-expect-error: no such route
  expect(await codeOf(client.call('GET', '/nothing'))).toEqual(['refused', 404])
  // @ts-expect-error: the path parameter is missing
  const nameless = client.call('PUT', '/extensions/{id}', { body: { enabled: true } })
  await expect(nameless).rejects.toThrow('"" cannot be the id of /extensions/{id}')
})

test('an answer that this library does not know is `version-skew`', async () => {
  const client = await admin(other)
  const failed = client.call('GET', '/status')
  expect(await codeOf(failed)).toEqual(['version-skew', 200])
  await expect(failed).rejects.toThrow(
    /GET \/status .*active_sessions.*library is of 0\.1\.0, the host of 0\.1\.0/,
  )
  // What is asked for without types is handed over as it came.
  expect(await client.request('GET', '/status')).toEqual({ sessions: 'none' })
})

test('the address comes from the option, the environment, the config folder, in that order', async () => {
  const configDir = await folder()
  const pin = { certificatePem: await readFile(join(host.configDir, 'native-cert.pem'), 'utf8') }
  const urlOf = async (options: Parameters<typeof connect>[0]) =>
    (await open({ pin, configDir, ...options })).url
  const env = { SVC_MGMT_URL: 'https://127.0.0.1:2' }
  expect(await urlOf({})).toBe('https://127.0.0.1:47990')
  await writeFile(join(configDir, 'mgmt-endpoint'), '# a\nSVC_MGMT_URL=https://127.0.0.1:3\n')
  expect(await urlOf({})).toBe('https://127.0.0.1:3')
  expect(await urlOf({ env })).toBe('https://127.0.0.1:2')
  expect(await urlOf({ env, url: 'https://127.0.0.1:1' })).toBe('https://127.0.0.1:1')
  expect(await urlOf({ configDir: undefined, env: { SVC_CONFIG_DIR: configDir } })).toBe(
    'https://127.0.0.1:3',
  )
  expect(await codeOf(urlOf({ url: 'http://127.0.0.1:1' }))).toEqual(['unconfigured', undefined])
})

test('the token comes from the option, two variables, the plugin token file; never from mgmt-token', async () => {
  const { configDir, adminToken } = host
  const asked = async (options: Parameters<typeof connect>[0]) =>
    codeOf((await open({ configDir, ...options })).call('GET', '/extensions'))
  const denied = ['unauthorized', 401]
  // The file is there, and right; it is still the operator's.
  expect(await readFile(join(configDir, 'mgmt-token'), 'utf8')).toContain(adminToken)
  expect(await asked({})).toEqual(denied)
  await writeFile(join(configDir, 'plugin-token'), `SVC_PLUGIN_TOKEN=${adminToken}\n`)
  later.push(() => rm(join(configDir, 'plugin-token')))
  expect(await asked({})).toBe('resolved')
  expect(await asked({ env: { SVC_PLUGIN_TOKEN: 'x'.repeat(32) } })).toEqual(denied)
  const env = { SVC_PLUGIN_TOKEN: 'x'.repeat(32), SVC_MGMT_TOKEN: adminToken }
  expect(await asked({ env })).toBe('resolved')
  expect(await asked({ env, token: 'y'.repeat(32) })).toEqual(denied)
})

test('the certificate comes from the option, SVC_MGMT_CA, native-cert.pem, cert.pem; without one nothing is sent', async () => {
  const configDir = await folder()
  const own = join(host.configDir, 'native-cert.pem')
  const foreign = join(other.configDir, 'native-cert.pem')
  const url = `https://127.0.0.1:${host.port}`
  const asked = async (options: Parameters<typeof connect>[0]) =>
    codeOf(open({ url, configDir, ...options }).then(client => client.call('GET', '/health')))
  expect(await asked({})).toEqual(['unconfigured', undefined])
  await writeFile(join(configDir, 'cert.pem'), await readFile(own))
  expect(await asked({})).toBe('resolved')
  await writeFile(join(configDir, 'native-cert.pem'), await readFile(foreign))
  expect(await asked({})).toEqual(['pin-mismatch', undefined])
  expect(await asked({ env: { SVC_MGMT_CA: own } })).toBe('resolved')
  expect(await asked({ env: { SVC_MGMT_CA: join(configDir, 'absent.pem') } })).toEqual([
    'unconfigured',
    undefined,
  ])
  const pin = { certificatePem: await readFile(foreign, 'utf8') }
  expect(await asked({ env: { SVC_MGMT_CA: own }, pin })).toEqual(['pin-mismatch', undefined])
  await rm(join(configDir, 'cert.pem'))
  await rm(join(configDir, 'native-cert.pem'))
  await mkdir(join(configDir, 'native-cert.pem'))
  expect(await asked({})).toEqual(['unconfigured', undefined])
})

/** Takes what is followed until `isLast`; whatever is not told in time fails the test by its limit. */
async function take(
  source: AsyncIterable<Followed>,
  isLast: (each: Followed) => boolean,
): Promise<Followed[]> {
  const taken: Followed[] = []
  for await (const each of source) {
    taken.push(each)
    if (isLast(each)) break
  }
  return taken
}
const names = (all: readonly Followed[]) =>
  all.map(each => ('event' in each ? `${each.type} ${each.event.kind}` : each.type))

test('events begin at the live tail; a replay is asked for; kinds beyond this library are `unknown`', async () => {
  const client = await admin()
  host.emit(displayReleased, { count: 3 })
  const followed = take(client.follow({ kinds: 'display.*,novelty.*' }), each => {
    if (each.type === 'live') {
      host.emit(displayReleased, { count: 4 })
      host.emit(novelty, { what: 'x' })
    }
    return each.type === 'unknown'
  })
  const [live, released, unknown] = await followed
  expect(names(await followed)).toEqual(['live', 'event display.released', 'unknown novelty.seen'])
  expect(released).toMatchObject({ event: { count: 4, schema: 1 } })
  expect(unknown).toMatchObject({ event: { what: 'x' } })
  expect(live).toEqual({ type: 'live' })
  const since = released!.type === 'event' ? released!.event.seq : 0
  const untilLive = (options: object) => take(client.follow(options), each => each.type === 'live')
  expect(names(await untilLive({ since }))).toEqual(['unknown novelty.seen', 'live'])
  expect(names(await untilLive({ since: 0, kinds: 'display.*' }))).toEqual([
    'event display.released',
    'event display.released',
    'live',
  ])
  expect(names(await untilLive({ since: 999_999 }))).toEqual(['dropped', 'live'])
})

test('a lost connection is taken up again where it was, without a gap or a double', async () => {
  // Between client and host, so that the connection can be cut while the host lives.
  const sockets = new Set<Socket>()
  const relay = createServer(inner => {
    const outer = connectTcp(host.port, '127.0.0.1')
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>(done => relay.listen(0, '127.0.0.1', done))
  later.push(() => new Promise(done => relay.close(done)))
  const url = `https://127.0.0.1:${(relay.address() as { port: number }).port}`
  const client = await open({ configDir: host.configDir, token: host.adminToken, url })
  let count = 0
  const all = await take(client.follow({ kinds: 'display.*', random: () => 0 }), each => {
    if (each.type === 'live' && count === 0) host.emit(displayReleased, { count: ++count })
    else if (each.type === 'event' && count === 1) for (const socket of sockets) socket.destroy()
    if (each.type === 'disconnected') host.emit(displayReleased, { count: ++count })
    return each.type === 'live' && count === 2
  })
  expect(names(all)).toEqual([
    'live',
    'event display.released',
    'disconnected',
    'event display.released',
    'live',
  ])
  expect(all[2]).toMatchObject({ retryMs: 250, error: { code: 'unreachable' } })
  expect(all[3]).toMatchObject({ event: { count: 2 } })
})

test('the stream comes back when its extension does; 401 ends it, an abort ends it without an error', async () => {
  const client = await admin()
  const ended = new AbortController()
  let lives = 0
  const seen: string[] = []
  for await (const each of client.follow({ kinds: 'none.such', random: () => 0, signal: ended.signal })) {
    seen.push(each.type)
    if (each.type === 'live' && ++lives === 1) void host.extensions.enable('events', false)
    else if (each.type === 'live') ended.abort()
    else if (each.type === 'disconnected' && each.error.status === 404)
      await host.extensions.enable('events', true)
  }
  expect(seen.slice(0, 2)).toEqual(['live', 'disconnected'])
  // Nothing tells a reader at the tail what it has missed meanwhile, so that it is told to read state again.
  expect(seen.slice(-2)).toEqual(['dropped', 'live'])
  const stranger = await open({ configDir: host.configDir })
  expect(await codeOf(take(stranger.follow(), () => false))).toEqual(['unauthorized', 401])
})

test('waits double from 500 ms to 15 s, times 0.5 to 1.5, and are short again after 30 good seconds', () => {
  const plain = createBackoff(() => 0.5)
  expect(Array.from({ length: 7 }, () => plain(0))).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000])
  expect([plain(29_999), plain(30_000), plain(0)]).toEqual([15_000, 500, 1000])
  expect([createBackoff(() => 0)(0), createBackoff(() => 0.999)(0)]).toEqual([250, expect.closeTo(749.5, 0)])
})

test('whatever a parameter holds, it stays one segment of the path, and the query stays a query', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), fc.string({ unit: 'binary' }), (id, after) => {
      fc.pre(id !== '.' && id !== '..')
      const { pathname, searchParams } = new URL(
        fillPath('/a/{id}/b', { id }, { after, limit: undefined }),
        'https://h',
      )
      expect(decodeURIComponent(pathname.split('/')[2]!)).toBe(id)
      expect([pathname.split('/').length, searchParams.get('after'), searchParams.size]).toEqual([
        4,
        after,
        1,
      ])
    }),
  )
  for (const id of ['', '.', '..']) expect(() => fillPath('/a/{id}', { id })).toThrow(TypeError)
})
