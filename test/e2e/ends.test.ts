// Every way in which a session ends: what the client is told, the events in their order, the status before and after,
// and what becomes of the display.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect as connectTcp, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Identity } from '../../sdk/stream/index.ts'
import { type Client, follow, type Happened, makeDevices, watch } from '../harness/clients.ts'
import { fingerprintOf, type HostProcess, serve, startViewer, until } from '../harness/host.ts'
import { xDisplays } from '../harness/x11.ts'

const mode = { width: 640, height: 480, hz: 30 }
const idleTimeoutMs = 1200

let folder: string
let configDir: string
let host: HostProcess
let device: Identity
let happened: Happened
let links: Socket[]
let proxy: Server

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-ends-'))
  configDir = join(folder, 'config')
  ;[device] = (await makeDevices(configDir, folder, ['sofa'])) as [Identity]
  host = await serve({ configDir, env: { SVC_IDLE_TIMEOUT_MS: String(idleTimeoutMs) } })
  happened = await follow(host)
  links = []
  // The control connection goes through here, so that it can be cut without a word.
  proxy = createServer(near => {
    const far = connectTcp(host.nativePort, '127.0.0.1')
    near.pipe(far).pipe(near)
    for (const end of [near, far])
      end.on('error', () => {}).on('close', () => void [near, far].map(socket => socket.destroy()))
    links.push(near)
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  happened?.stop()
  proxy?.close()
  await host?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const status = async (): Promise<any> => (await host.api('GET', '/status')).body
const rows = async (): Promise<any[]> => (await host.api('GET', '/display/state')).body.displays
const id = (): string => device.fingerprint.slice(0, 16)
const begin = (): Promise<Client> => {
  const { port } = proxy.address() as { port: number }
  return watch(host, device, mode, { port })
}
const began = ['client.connected', 'session.started', 'stream.started']
/** What is told when a session ends. */
const ends = (ended: string, reason: string): string[] => [
  ...['stream.stopped', `session.ended ${ended}`, `client.disconnected ${reason}`],
]

interface End {
  readonly how: string
  act(client: Client): Promise<unknown> | unknown
  /** Code that the client is told, or finds out itself. */
  readonly told: string
  readonly ended: string
  readonly reason: string
  /** What becomes of the display. */
  readonly display: 'lingers' | 'gone'
  /** Brings the host back to where the next one can begin. */
  after?(): Promise<unknown>
}

const enable = (extension: string, enabled: boolean) =>
  host.api('PUT', `/extensions/${extension}`, { enabled })
const table: readonly End[] = [
  {
    how: 'the client quits',
    act: client => client.session.close(),
    told: 'quit',
    ended: 'local',
    reason: 'quit',
    display: 'gone',
  },
  {
    how: 'the operator stops it',
    act: () => host.api('DELETE', '/session'),
    told: 'stopped',
    ended: 'stopped_by_operator',
    reason: 'error',
    display: 'gone',
  },
  {
    how: 'its device is unpaired',
    act: () => host.api('DELETE', `/native/clients/${device.fingerprint}`),
    told: 'unpaired',
    ended: 'stopped_by_operator',
    reason: 'error',
    display: 'gone',
    after: async () => {
      const pin = await host.arm()
      const { connect } = await import('../../sdk/stream/index.ts')
      const connection = await connect({
        ...{ host: '127.0.0.1', port: host.nativePort, identity: device, name: 'sofa', intent: 'pair' },
        expectFingerprint: fingerprintOf(readFileSync(join(configDir, 'native-cert.pem'), 'utf8')),
      })
      await connection.pair(pin)
      connection.close()
    },
  },
  {
    how: 'its X server dies',
    act: () => process.kill(xDisplays(host.pid)[0]!.pid, 'SIGKILL'),
    told: 'host-error',
    ended: 'host_error',
    reason: 'error',
    display: 'gone',
  },
  {
    how: 'what makes displays is switched off',
    act: () => enable('display-x11', false),
    told: 'host-error',
    ended: 'host_error',
    reason: 'error',
    display: 'gone',
    after: () => enable('display-x11', true),
  },
  {
    how: 'its link is cut and nobody comes back',
    act: () => links.at(-1)!.destroy(),
    told: 'lost',
    ended: 'lost',
    reason: 'timeout',
    display: 'lingers',
  },
  {
    how: 'the plane is switched off',
    act: () => enable('native-plane', false),
    told: 'stopping',
    ended: 'host_ended',
    reason: 'error',
    display: 'lingers',
    after: () => enable('native-plane', true),
  },
]

test.each(table)('$how: $ended', async ({ act, told, ended, reason, display, after }) => {
  const mark = happened.events.length
  expect(await status()).toMatchObject({ active_sessions: 0, video_streaming: false, sessions: [] })
  const client = await begin()
  await until('the stream', async () => (await status()).video_streaming)
  expect(await status()).toMatchObject({
    active_sessions: 1,
    session: { width: 640, height: 480, fps: 30 },
    stream: { codec: 'h264', bitrate_kbps: expect.any(Number) },
    sessions: [{ client: id(), plane: 'native', mode: '640x480@30' }],
  })
  expect(await rows()).toMatchObject([{ client: id(), state: 'active', sessions: 1 }])
  await act(client)
  expect(await client.session.ended).toMatchObject({ code: told })
  await until('the last event', () => happened.of(id(), mark).some(kind => /^client.disc/.test(kind)))
  expect(happened.of(id(), mark).filter(kind => !kind.startsWith('access.'))).toEqual([
    ...began,
    ...ends(ended, reason),
  ])
  const { summary } = happened.events.findLast(({ kind }) => kind === 'session.ended')
  expect(summary).toMatchObject({ client: id(), mode: '640x480@30', codec: 'h264', ended })
  expect(summary.frames_sent).toBeGreaterThanOrEqual(1)
  await after?.()
  const now = await status()
  expect(now).toMatchObject({ active_sessions: 0, video_streaming: false, sessions: [] })
  expect([now.session ?? null, now.stream ?? null]).toEqual([null, null])
  if (display === 'lingers') {
    expect(await rows()).toMatchObject([{ client: id(), state: 'lingering', sessions: 0 }])
    expect((await host.api('POST', '/display/release')).body).toEqual({ released: 1 })
  }
  await until('no display', async () => (await rows()).length === 0)
  await until('no X server', () => xDisplays(host.pid).length === 0)
})

test('a client that falls silent with its connection open is told that it was idle', async () => {
  const mark = happened.events.length
  const certificate = readFileSync(join(configDir, 'native-cert.pem'), 'utf8')
  const silent = startViewer(
    join(folder, 'sofa'),
    ...['stream', `127.0.0.1:${host.nativePort}`, '--fingerprint', fingerprintOf(certificate)],
  )
  await until('the stream', async () => (await status()).video_streaming)
  silent.kill('SIGSTOP')
  await until('the last event', () => happened.of(id(), mark).length === 6)
  expect(happened.of(id(), mark)).toEqual([...began, ...ends('lost', 'timeout')])
  const exited = new Promise(resolve => silent.once('exit', resolve))
  // Awake again it finds what it was told meanwhile.
  silent.kill('SIGCONT')
  expect(await exited).not.toBe(0)
  expect(silent.text()).toMatch(/nothing has come/)
  await host.api('POST', '/display/release')
})

test('a cut link that comes back in time ends nothing', async () => {
  const mark = happened.events.length
  const first = await begin()
  const { session } = first.session.started
  links.at(-1)!.destroy()
  expect(await first.session.ended).toMatchObject({ code: 'lost' })
  await sleep(idleTimeoutMs / 3)
  expect(await status()).toMatchObject({ active_sessions: 1 })
  const { port } = proxy.address() as { port: number }
  const second = await watch(host, device, mode, { port, resume: session })
  expect(second.session.started).toMatchObject({ session, epoch: 2 })
  await sleep(idleTimeoutMs + 300)
  expect(happened.of(id(), mark)).toEqual(began)
  await second.session.close()
  await until('the end', () => happened.of(id(), mark).length === 6)
  expect(happened.of(id(), mark)).toEqual([...began, ...ends('local', 'quit')])
})

test('the host stops in order: the client is told before anything goes, and all of it within its time', async () => {
  const mark = happened.events.length
  const client = await begin()
  await until('the start', () => happened.of(id(), mark).length === 3)
  const before = performance.now()
  const [code, end] = await Promise.all([host.stop(), client.session.ended])
  expect([code, end.code]).toEqual([0, 'stopping'])
  expect(performance.now() - before).toBeLessThan(5000)
  expect(happened.of(id(), mark)).toEqual([...began, ...ends('host_ended', 'error')])
  const kinds = happened.events.slice(mark).map(({ kind }) => kind)
  expect(kinds.indexOf('host.stopping')).toBeLessThan(kinds.indexOf('session.ended'))
  expect(kinds.indexOf('host.stopping')).toBeGreaterThan(-1)
  expect(xDisplays(host.pid)).toEqual([])
})
