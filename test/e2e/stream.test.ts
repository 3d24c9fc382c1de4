// A paired client streams the test picture from a real host: what arrives, what it may change while it streams, and
// every way in which a stream ends or goes on.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect as connectTcp, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openApi } from 'svc-host/client'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { connect, type Identity, loadIdentity, type StreamSession, stream } from '../../sdk/stream/index.ts'
import { type HostProcess, serve, startViewer, until, viewer } from '../harness/host.ts'
import { drawnNumbers, probe } from '../harness/video.ts'

const mode = { width: 640, height: 480, hz: 30 }
let host: HostProcess
let folder: string
let identity: Identity
const happened: any[] = []
const watching = new AbortController()

const target = () => `127.0.0.1:${host.nativePort}`
const identityFolder = () => join(folder, 'identity')
const status = async () => (await host.api('GET', '/status')).body

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-stream-'))
  host = await serve({ env: { SVC_SOURCE: 'software', SVC_IDLE_TIMEOUT_MS: '1500' } })
  const paired = await viewer(identityFolder(), 'pair', target(), '--pin', await host.arm())
  expect(paired.code, paired.err).toBe(0)
  identity = await loadIdentity(identityFolder())
  void follow()
})

/** Keeps all events of the host. */
const follow = async (): Promise<void> => {
  const api = openApi({
    url: `https://127.0.0.1:${host.mgmtPort}`,
    token: readFileSync(join(host.configDir, 'mgmt-token'), 'utf8').trim().split('=').at(-1)!,
    certificatePem: readFileSync(join(host.configDir, 'native-cert.pem'), 'utf8'),
  })
  try {
    for await (const { data } of api.events({ signal: watching.signal })) happened.push(data)
  } catch (error) {
    if (!watching.signal.aborted) throw error
  }
}

afterEach(async () => {
  if (host.child.exitCode === null)
    await until('an idle host', async () => (await status()).active_sessions === 0)
})
afterAll(async () => {
  watching.abort()
  await host?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Starts a session that delivers frames; `port` is that of a proxy, or the host's own. */
const start = async (port = host.nativePort, options: object = {}): Promise<StreamSession> => {
  const connection = await connect({ host: '127.0.0.1', port, identity, name: 'Sofa', intent: 'stream' })
  const session = await connection.start({ mode, ...options })
  await frames(session, 3)
  return session
}
/** The next frames of a session. */
const frames = async (session: StreamSession, count: number): Promise<Uint8Array[]> => {
  const got: Uint8Array[] = []
  const source = session.frames[Symbol.asyncIterator]()
  while (got.length < count) {
    const { value, done } = await source.next()
    if (done)
      throw new Error(`the stream ended after ${got.length} frames: ${JSON.stringify(await session.ended)}`)
    got.push(value.data)
  }
  return got
}

/** Kinds of what has happened since `mark`, once `last` is among them. */
const kindsSince = async (mark: number, last = 'client.disconnected'): Promise<string[]> => {
  const since = () => happened.slice(mark).map(({ kind }) => kind)
  await until(`the event ${last}`, () => since().includes(last))
  return since().filter(kind => /^(client|session|stream|access)\./.test(kind))
}
const whole = [
  ...['client.connected', 'session.started', 'stream.started'],
  ...['stream.stopped', 'session.ended', 'client.disconnected'],
]
const lastSummary = () => happened.findLast(({ kind }) => kind === 'session.ended')?.['summary']
const lastReason = () => happened.findLast(({ kind }) => kind === 'client.disconnected')?.['reason']

test('a client pairs by PIN and records what it was promised, each picture once and in order', async () => {
  const record = join(folder, 'out.mkv')
  const stats = join(folder, 'out.json')
  const fresh = join(folder, 'second-identity')
  // Two attempts on a PIN window are at least 2 s apart.
  await sleep(2000)
  const { code, err } = await viewer(
    fresh,
    ...['stream', target(), '--pin', await host.arm(), '--mode', '1280x720@60', '--seconds', '3'],
    ...['--record', record, '--stats', stats],
  )
  expect(code, err).toBe(0)
  const seen = await probe(record)
  expect(seen).toMatchObject({ width: 1280, height: 720, codec: 'h264' })
  const told = JSON.parse(readFileSync(stats, 'utf8'))
  expect(told).toMatchObject({ width: 1280, height: 720, codec: 'h264', lost_frames: 0, frames: seen.frames })
  // The machine may be busy; a host that streams at all gets far beyond half of 180.
  expect(seen.frames).toBeGreaterThan(90)
  const numbers = await drawnNumbers(record)
  expect(numbers).toHaveLength(seen.frames)
  expect(numbers).not.toContain(null)
  expect(numbers.filter((number, i) => i > 0 && (number as number) <= (numbers[i - 1] as number))).toEqual([])
  expect(JSON.stringify(host.output())).not.toMatch(/"pin"/)
})

test('status tells of the session; a keyframe can be asked for; DELETE /session stops it deliberately', async () => {
  expect((await host.api('POST', '/session/idr')).status).toBe(409)
  const mark = happened.length
  const session = await start()
  await until('video to be streaming', async () => (await status()).video_streaming)
  const now = await status()
  expect(now).toMatchObject({
    active_sessions: 1,
    session: { width: 640, height: 480, fps: 30 },
    stream: { codec: 'h264' },
  })
  expect(now.sessions[0]).toMatchObject({
    plane: 'native',
    client: identity.fingerprint.slice(0, 16),
    mode: '640x480@30',
    access_level: 'full',
    time_to_first_frame_ms: expect.any(Number),
  })
  expect((await host.api('POST', '/session/idr')).status).toBe(202)
  expect((await host.api('DELETE', '/session')).status).toBe(204)
  expect(await session.ended).toMatchObject({ code: 'stopped' })
  expect(await kindsSince(mark)).toEqual(whole)
  expect(lastSummary()).toMatchObject({ ended: 'stopped_by_operator', frames_sent: expect.any(Number) })
})

test('it ends when the client says so, with its numbers', async () => {
  const mark = happened.length
  const session = await start()
  await session.close()
  expect(await kindsSince(mark)).toEqual(whole)
  expect(lastSummary()).toMatchObject({
    ended: 'local',
    mode: '640x480@30',
    codec: 'h264',
    client_name: expect.any(String),
  })
  expect(lastSummary().frames_sent).toBeGreaterThanOrEqual(3)
  expect(lastReason()).toBe('quit')
})

test('mode and bitrate change in mid-stream', async () => {
  const session = await start()
  expect(await session.resize({ width: 1280, height: 720, hz: 60 })).toEqual({
    width: 1280,
    height: 720,
    hz: 60,
  })
  await until('the new mode', async () => (await status()).sessions[0]?.mode === '1280x720@60')
  expect((await status()).sessions[0].last_resize_ms).toEqual(expect.any(Number))
  await expect(session.resize({ width: 1279, height: 720, hz: 60 })).rejects.toMatchObject({ code: 'mode' })
  session.setBitrate(1)
  await until('the least bitrate', async () => (await status()).stream?.bitrate_kbps === 500)
  await frames(session, 10)
  await session.close()
})

test('a lost control connection is resumed in the same session, under another epoch', async () => {
  const links: Socket[] = []
  const proxy = createServer(near => {
    const far = connectTcp(host.nativePort, '127.0.0.1')
    near.pipe(far).pipe(near)
    for (const end of [near, far])
      end.on('error', () => {}).on('close', () => [near, far].map(s => s.destroy()))
    links.push(near)
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  const { port } = proxy.address() as { port: number }
  const mark = happened.length
  const sessions: StreamSession[] = []
  let seen = 0
  const source = stream({
    connect: { host: '127.0.0.1', port, identity, name: 'Sofa' },
    start: { mode },
    withinMs: 5000,
    onSession: session => sessions.push(session),
  })
  for await (const _frame of source) {
    if (++seen === 5) links[0]!.destroy()
    if (sessions.length === 2 && seen > 10) break
  }
  expect(sessions.map(s => s.started.epoch)).toEqual([1, 2])
  expect(sessions[1]!.started.session).toBe(sessions[0]!.started.session)
  expect(await kindsSince(mark)).toEqual(whole)
  proxy.close()
})

test('a device whose access changes is told; one that is unpaired is thrown out', async () => {
  const path = `/native/clients/${identity.fingerprint}`
  const told: number[] = []
  const mark = happened.length
  const session = await start(host.nativePort, { onGrants: (grants: number) => told.push(grants) })
  expect((await host.api('PATCH', path, { grants: 0 })).status).toBe(200)
  await until('the new grants', () => told.includes(0))
  await until('the new level', async () => (await status()).sessions[0]?.access_level === 'view')
  expect((await host.api('PATCH', path, { expires_in_secs: 1 })).status).toBe(200)
  expect(await session.ended).toMatchObject({ code: 'unpaired' })
  expect(await kindsSince(mark)).toEqual([
    ...whole.slice(0, 3),
    ...['access.changed', 'access.changed', 'access.expired'],
    ...whole.slice(3),
  ])
  const late = await connect({
    host: '127.0.0.1',
    port: host.nativePort,
    identity,
    name: 'Sofa',
    intent: 'stream',
  })
  await expect(late.start({ mode })).rejects.toMatchObject({ code: 'expired' })

  expect((await host.api('PATCH', path, { clear_expiry: true, grants: 0x7f })).status).toBe(200)
  const again = await start()
  expect((await host.api('DELETE', path)).status).toBe(204)
  expect(await again.ended).toMatchObject({ code: 'unpaired' })
  expect(lastSummary()).toMatchObject({ ended: 'stopped_by_operator' })
  const paired = await viewer(identityFolder(), 'pair', target(), '--pin', await host.arm())
  expect(paired.code, paired.err).toBe(0)
})

test('a client that is killed is missed after the idle time-out', async () => {
  const mark = happened.length
  const watcher = startViewer(identityFolder(), 'stream', target(), '--mode', '640x480@30', '--seconds', '60')
  await until('its stream', async () => (await status()).video_streaming)
  watcher.kill('SIGKILL')
  expect(await kindsSince(mark)).toEqual(whole)
  expect(lastSummary()).toMatchObject({ ended: 'lost' })
  expect(lastReason()).toBe('timeout')
})

test('four sessions stream at once, a fifth is told that the host is busy', async () => {
  const sessions = await Promise.all([1, 2, 3, 4].map(() => start()))
  expect((await status()).active_sessions).toBe(4)
  const fifth = await connect({
    host: '127.0.0.1',
    port: host.nativePort,
    identity,
    name: 'Sofa',
    intent: 'stream',
  })
  await expect(fifth.start({ mode })).rejects.toMatchObject({ code: 'busy' })
  await Promise.all(sessions.map(session => frames(session, 5)))
  await Promise.all(sessions.map(session => session.close()))
})

test('switched off, the plane closes its sessions and ports; switched on, it serves again', async () => {
  const session = await start()
  expect((await host.api('PUT', '/extensions/native-plane', { enabled: false })).status).toBe(200)
  expect(await session.ended).toMatchObject({ code: 'stopping' })
  expect((await host.api('GET', '/native/pair')).body.enabled).toBe(false)
  await expect(start()).rejects.toMatchObject({ code: 'unreachable' })
  expect((await host.api('PUT', '/extensions/native-plane', { enabled: true })).status).toBe(200)
  await (await start()).close()
})

test('the host stops within its time and tells the client', async () => {
  const session = await start()
  const before = performance.now()
  expect(await host.stop()).toBe(0)
  expect(performance.now() - before).toBeLessThan(5000)
  expect(await session.ended).toMatchObject({ code: 'stopping' })
})
