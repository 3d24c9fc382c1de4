// A device that the host does not know, as people have it: the viewer knocks, the operator answers, and what was said
// holds for as long as the stream lasts.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { loadIdentity } from '../../sdk/stream/index.ts'
import { follow, type Happened } from '../harness/clients.ts'
import { type HostProcess, run, serve, startViewer, until } from '../harness/host.ts'
import { openNetwork } from '../harness/network.ts'
import { probe } from '../harness/video.ts'
import { streamedDisplay, xDisplays } from '../harness/x11.ts'

const mode = ['--mode', '640x480@30', '--no-audio']
let host: HostProcess
let folder: string
let happened: Happened
const target = () => `127.0.0.1:${host.nativePort}`

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-pairing-'))
  host = await serve()
  happened = await follow(host)
})
afterEach(async () => {
  await host.api('DELETE', '/native/clients')
  await until('the displays to go', () => xDisplays(host.pid).length === 0, 25_000)
  expect((await host.api('GET', '/native/pending')).body).toEqual([])
})
afterAll(async () => {
  happened?.stop()
  await host?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** A viewer of its own device; `code` resolves when it ends. */
const start = async (name: string, ...args: string[]) => {
  const dir = join(folder, name)
  const { fingerprint } = await loadIdentity(dir)
  const child = startViewer(dir, 'stream', target(), ...mode, ...args)
  const code = new Promise<number | null>(resolve => child.once('exit', resolve))
  return { child, code, fingerprint, text: child.text }
}
const pending = async (): Promise<any[]> => (await host.api('GET', '/native/pending')).body
const knocks = (fingerprint: string): Promise<any> =>
  until('the knock', async () => (await pending()).find(row => row.fingerprint === fingerprint))
const ctl = async (...args: string[]): Promise<any> => {
  const { code, out, err } = await host.cli('ctl', ...args, '--json')
  expect(code, out + err).toBe(0)
  return JSON.parse(out).data
}
/** The same without a process for each call. */
const approve = async (fingerprint: string, choice: object = {}): Promise<any> => {
  const { id } = await knocks(fingerprint)
  const { status, body } = await host.api('POST', `/native/pending/${id}/approve`, choice)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const change = async (fingerprint: string, access: object): Promise<void> => {
  expect((await host.api('PATCH', `/native/clients/${fingerprint}`, access)).status).toBe(200)
}
const streams = () =>
  until('the stream', async () => (await host.api('GET', '/status')).body.video_streaming as boolean)
/** What was told about pairing and access since `mark`, and that sessions began and ended. */
const told = (mark: number): string[] =>
  happened.events
    .slice(mark)
    .map(({ kind, summary }) => (summary ? `${kind} ${summary.ended}` : kind))
    .filter(kind => /^(pairing|access|session)\./.test(kind))

test('a knock waits, is approved, and goes on into the stream; the next visit needs none', async () => {
  const mark = happened.events.length
  const record = join(folder, 'knock.mkv')
  const viewer = await start('sofa', '--seconds', '2', '--record', record)
  const row = await knocks(viewer.fingerprint)
  expect(row).toMatchObject({ source: 'lan', access_level: null, name: expect.stringMatching(/\S/) })
  await until('what the viewer says', () => viewer.text().includes('ctl approve ID'))
  expect(viewer.text()).toMatch(/Waiting at most 3:00 minutes for its operator to approve it/)
  expect(viewer.text()).toContain(viewer.fingerprint.slice(0, 16))
  expect((await host.api('GET', '/local/summary')).body.pending_approvals).toBe(1)
  expect(told(mark)).toEqual(['pairing.pending'])
  expect(xDisplays(host.pid)).toEqual([])

  expect(await ctl('pending')).toMatchObject([{ id: row.id, fingerprint: viewer.fingerprint }])
  const approved = await ctl('approve', String(row.id), '--name', 'Sofa')
  expect(approved).toMatchObject({ name: 'Sofa', access_level: 'full', expires_unix: null })
  expect(await viewer.code, viewer.text()).toBe(0)
  expect((await probe(record)).frames).toBeGreaterThan(0)
  expect(told(mark)).toEqual([
    ...['pairing.pending', 'pairing.completed', 'session.started', 'session.ended local'],
  ])

  const again = await start('sofa', '--seconds', '0.5', '--no-wait')
  expect(await again.code, again.text()).toBe(0)
  expect(again.text()).not.toContain('Waiting')
})

test('a device that is sent away is told so; one that does not wait is not listed', async () => {
  const mark = happened.events.length
  const viewer = await start('denied')
  await ctl('deny', String((await knocks(viewer.fingerprint)).id))
  expect(await viewer.code).toBe(6)
  expect(viewer.text()).toContain('the operator of this host said no')
  expect(told(mark)).toEqual(['pairing.pending', 'pairing.denied'])
  const hasty = await start('denied', '--no-wait')
  expect(await hasty.code).toBe(6)
  expect(hasty.text()).toContain('pair with a PIN, or knock')
  expect(hasty.text()).not.toContain('Waiting')
  expect(await pending()).toEqual([])
})

test('a viewer that is interrupted while it waits leaves; approved meanwhile, it comes in at once', async () => {
  const viewer = await start('patient')
  await knocks(viewer.fingerprint)
  await until('what the viewer says', () => viewer.text().includes('Waiting'))
  viewer.child.kill('SIGINT')
  expect(await viewer.code).toBe(130)
  await approve(viewer.fingerprint, { grants: 0 })
  expect(await pending()).toEqual([])
  const again = await start('patient', '--seconds', '0.5')
  // It has never seen the host let it in, so that it still has no pin, and knocks at an open door.
  expect(await again.code, again.text()).toBe(0)
  expect(again.text()).not.toContain('Waiting')
})

test('a viewer that waits hears that the host stops', async () => {
  const viewer = await start('late')
  await knocks(viewer.fingerprint)
  expect((await host.api('PUT', '/extensions/native-plane', { enabled: false })).status).toBe(200)
  expect(await viewer.code).toBe(7)
  expect(viewer.text()).toContain('(stopping): the host is shutting down')
  expect((await host.api('POST', '/native/pending/0/approve')).status).toBe(503)
  expect((await host.api('PUT', '/extensions/native-plane', { enabled: true })).status).toBe(200)
})

test('from outside its network a device is listed, and pairs by a PIN that is meant for it alone', async () => {
  const network = await openNetwork('public')
  try {
    const dir = join(folder, 'outsider')
    const { fingerprint } = await loadIdentity(dir)
    const visit = (...args: string[]) =>
      run('ip', [
        ...['netns', 'exec', network.name, process.execPath],
        ...['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning'],
        ...['examples/viewer/main.ts', 'stream', `${network.hostAddress}:${host.nativePort}`, ...mode],
        ...['--identity', dir, '--seconds', '0.5', ...args],
      ])
    const first = await visit()
    expect(first).toMatchObject({ code: 4, err: expect.stringContaining('ask for a PIN that is meant for') })
    const { id, source } = await knocks(fingerprint)
    expect(source).toBe('wan')
    expect((await host.api('POST', `/native/pending/${id}/approve`)).status).toBe(409)
    expect(await visit('--pin', await host.arm())).toMatchObject({ code: 4 })
    const { pin } = await ctl('pair', 'arm', '--fingerprint', fingerprint.slice(0, 16))
    const paired = await visit('--pin', pin)
    expect(paired.code, paired.err).toBe(0)
    expect(await pending()).toEqual([])
  } finally {
    await network.close()
  }
})

test('unpairing ends the stream at once', async () => {
  const viewer = await start('guest')
  await approve(viewer.fingerprint)
  await streams()
  const mark = happened.events.length
  await ctl('unpair', viewer.fingerprint.slice(0, 12))
  expect(await viewer.code).toBe(8)
  expect(viewer.text()).toContain('this device is not paired any more')
  await until('the end of the session', () => told(mark).length > 0)
  expect(told(mark)).toEqual(['session.ended stopped_by_operator'])
  expect((await host.api('GET', '/status')).body).toMatchObject({ active_sessions: 0, sessions: [] })
})

test('an access that ends while it streams ends the stream; the device knocks anew', async () => {
  const viewer = await start('evening')
  const approved = await approve(viewer.fingerprint, { expires_in_secs: 4 })
  await streams()
  const mark = happened.events.length
  expect(await viewer.code).toBe(8)
  expect(viewer.text()).toContain('the access of this device is over')
  const lateMs = Date.now() - approved.expires_unix * 1000
  expect(lateMs).toBeGreaterThanOrEqual(0)
  expect(lateMs).toBeLessThan(4000)
  await until('the end of the session', () => told(mark).length > 1)
  expect(told(mark)).toEqual(['access.expired', 'session.ended stopped_by_operator'])
  expect((await host.api('GET', '/native/clients')).body).toMatchObject([{ access_level: 'full' }])

  const again = await start('evening', '--seconds', '0.5')
  expect(await knocks(again.fingerprint)).toMatchObject({ expires_unix: approved.expires_unix })
  await approve(again.fingerprint, { grants: 127 })
  expect(await again.code, again.text()).toBe(0)
})

test('what is typed arrives only while the device may type', async () => {
  const script = join(folder, 'lines')
  const lines = Array.from({ length: 60 }, (_, i) => {
    const at = 1500 + i * 400
    // What may be left of a line that was cut off is thrown away before the next.
    const clear = [`${at} key-down ControlLeft`, `${at} key KeyU`, `${at} key-up ControlLeft`]
    return [...clear, `${at} text echo ${i} >> typed\\n`].join('\n')
  })
  writeFileSync(script, lines.join('\n'))
  const viewer = await start('typist', '--input', script)
  await approve(viewer.fingerprint)
  const { pid } = await streamedDisplay(host)
  const home = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .find(entry => entry.startsWith('HOME='))!
    .slice('HOME='.length)
  const file = join(home, 'typed')
  const typed = (): number[] =>
    existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : []
  const typing = (count: number) => until(`${count} lines`, () => typed().length >= count)

  await typing(3)
  expect(viewer.text()).not.toContain('this device may')
  await change(viewer.fingerprint, { grants: 0x01 })
  await sleep(600)
  const before = typed()
  await sleep(1500)
  expect(typed()).toEqual(before)
  expect(viewer.text()).toContain('from now on this device may use: gamepad')
  await change(viewer.fingerprint, { name: 'Typ\u202eist' })
  expect((await host.api('GET', '/status')).body.sessions).toMatchObject([
    { access_level: 'controller', client_name: 'Typist' },
  ])

  await change(viewer.fingerprint, { grants: 0x7f })
  await typing(before.length + 3)
  const after = typed().slice(before.length)
  // In order, and nothing that was typed without the grant came later.
  expect(after).toEqual(after.toSorted((a, b) => a - b))
  expect(after[0]! - before.at(-1)!).toBeGreaterThanOrEqual(4)
  viewer.child.kill('SIGINT')
  expect(await viewer.code, viewer.text()).toBe(0)
  expect(await run('pgrep', ['-f', folder])).toMatchObject({ out: '' })
})
