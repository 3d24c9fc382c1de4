// The verbs, typed as an operator types them, against a running host: answers, refusals, exit codes, both outputs.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { PairingQueue, PairingWindow } from 'svc-host/api/pairing'
import { hostCollect } from 'svc-host/api/status'
import { defineExtension, event } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { run } from '../../kernel/cli.ts'

let nativePort = 9777
let knock: PairingQueue['knock']
/** What a plane tells pairing: that it answers PIN exchanges. */
const plane: InlineExtension = {
  manifest: { id: 'plane', requires: { 'pairing.queue': '^1.0.0', 'pairing.window': '^1.0.0' } },
  extension: defineExtension({
    deps: { pairing: PairingWindow, queue: PairingQueue },
    setup: (ctx, { pairing, queue }) => {
      knock = queue.knock
      ctx.tap(hostCollect, facts => ({ ...facts, ports: { ...facts.ports, native: nativePort } }))
      return ctx.effect('serve', () => pairing.serve())
    },
  }),
}
const tick = event('test.tick', z.object({ n: z.int() }))
const [ann, bob] = [`aaaa${randomBytes(30).toString('hex')}`, `aabb${randomBytes(30).toString('hex')}`]

let host: TestHost
let configDir: string
beforeAll(async () => {
  configDir = await mkdtemp(join(tmpdir(), 'svc-host-ctl-'))
  const extensions = ['ctl', 'status', 'events', 'pairing', 'sessions', 'displays', plane]
  host = await startHost({ extensions, configDir, env: { SVC_SOURCE: 'software' } })
})
afterAll(async () => {
  await host?.stop()
  await rm(configDir, { recursive: true, force: true })
})

const sink = () => {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  return { stream, text: () => text }
}

/** Types a command line; `columns` makes the output a terminal. */
async function type(line: string, signal = new AbortController().signal, env: NodeJS.ProcessEnv = {}) {
  const [out, err] = [sink(), sink()]
  const around = { out: out.stream, err: err.stream, env: { SVC_CONFIG_DIR: configDir, ...env }, signal }
  const code = await run(line.split(' '), around)
  return { code, out: out.text(), err: err.text() }
}
const json = async (line: string) => JSON.parse((await type(`${line} --json`)).out)

/** Puts devices on the roster as they lie on the disk. */
async function pair(...fingerprints: string[]) {
  await host.extensions.enable('pairing', false)
  const client = (fingerprint: string, i: number) => ({
    name: ['Ann\u001b[2J', 'Bob'][i],
    fingerprint,
    grants: 0x7f,
    expires_unix: null,
    granted_unix: 1,
  })
  await writeFile(
    join(configDir, 'native-paired.json'),
    JSON.stringify({ version: 1, clients: fingerprints.map(client) }),
  )
  await host.extensions.enable('pairing', true)
}
beforeEach(() => pair())

test('an idle host says so, for people and for programs', async () => {
  const status = await type('ctl status')
  expect(status).toMatchObject({ code: 0, err: '' })
  expect(status.out).toContain('Nothing is streaming.')
  expect(await json('ctl status')).toEqual({ v: 1, data: (await host.inject('GET', '/status')).json })
  expect(await json('ctl sessions')).toEqual({ v: 1, data: [] })
  expect(await json('ctl summary')).toEqual({ v: 1, data: (await host.inject('GET', '/local/summary')).json })
  expect((await type('ctl display')).out).toBe('There is no virtual display.\n')
  expect(await json('ctl display release')).toEqual({ v: 1, data: { released: 0 } })
  expect(await json('ctl stop-session')).toEqual({ v: 1, data: null })
})

test('arming shows the PIN first and what to do with it; the window follows what was asked', async () => {
  const armed = await type('ctl pair arm --ttl 2m --preset view')
  expect(armed.code).toBe(0)
  const { pin } = (await host.inject('GET', '/native/pair')).json
  expect(armed.out.split('\n')[0]).toBe(`PIN ${pin}`)
  expect(armed.out).toMatch(new RegExp(`within (2:00|1:5\\d) minutes[\\s\\S]* stream [\\d.]+ --pin ${pin}`))
  nativePort = 9778
  expect((await type('ctl pair status')).out).toMatch(/ stream [\d.]+:9778 --pin /)

  const bound = await json(`ctl pair arm --ttl 30 --expires-in 1h --fingerprint ${ann}`)
  expect(bound.data).toMatchObject({ armed: true, pin: expect.stringMatching(/^\d{4}$/) })
  expect(bound.data.expires_in_secs).toBeLessThanOrEqual(30)
  expect((await json('ctl pair status')).data).toMatchObject({
    native: { armed: true, pin: bound.data.pin },
    compat: null,
  })

  expect((await type('ctl pair disarm')).out).toBe('The pairing window is closed.\n')
  expect((await type('ctl pair status')).out).toContain('The pairing window is closed.')
})

test('what the host refuses is exit code 1 and its own sentence', async () => {
  const refused = await type('ctl pair arm --fingerprint xyz')
  expect(refused).toEqual({ code: 1, out: '', err: 'fingerprint must be 64 hex characters\n' })
  const enveloped = await type('ctl pair arm --fingerprint xyz --json')
  expect(enveloped).toMatchObject({ code: 1, err: '' })
  expect(JSON.parse(enveloped.out)).toEqual({
    v: 1,
    error: { code: 'refused', message: 'fingerprint must be 64 hex characters' },
  })
})

test('devices are listed, named by a prefix, changed and unpaired', async () => {
  await pair(ann, bob)
  const listed = (await type('ctl clients')).out
  expect(listed).toMatch(/^NAME +FINGERPRINT +PLANE +ACCESS +ENDS\n/)
  expect(listed).not.toMatch(/\u001b/)
  expect(listed).toContain(ann.slice(0, 16))

  expect(await type(`ctl access ${ann.slice(0, 8)} view`)).toMatchObject({ code: 0 })
  expect(await type(`ctl rename ${bob.toUpperCase()} Robert`)).toMatchObject({ code: 0 })
  const { native } = (await json('ctl clients')).data
  expect(native).toEqual([
    expect.objectContaining({ fingerprint: ann, access_level: 'view' }),
    expect.objectContaining({ fingerprint: bob, name: 'Robert' }),
  ])

  expect(await type('ctl unpair cccc')).toMatchObject({
    code: 1,
    err: expect.stringContaining('no paired device'),
  })
  expect(await type(`ctl unpair ${ann.slice(0, 4)}`)).toMatchObject({ code: 0 })
  expect((await json('ctl unpair --all --yes')).data).toEqual({ unpaired: 1 })
  expect((await type('ctl clients')).out).toContain('No device is paired')
})

test('devices that knock are listed, let in or sent away', async () => {
  expect((await type('ctl pending')).out).toBe('No device waits for approval.\n')
  const waits = knock({ fingerprint: ann, name: 'Ann\u202e', address: '192.168.1.5' })
  knock({ fingerprint: bob, name: 'Bob', address: '8.8.8.8' })
  const [first, second] = (await json('ctl pending')).data
  expect([first, second]).toMatchObject([
    { name: 'Ann', fingerprint: ann, source: 'lan', access_level: null },
    { name: 'Bob', fingerprint: bob, source: 'wan' },
  ])
  const { out } = await type('ctl pending')
  expect(out).toMatch(/^ID +NAME +FINGERPRINT +FROM +KNOCKED +PAIRED BEFORE\n/)
  expect(out).toMatch(new RegExp(`${first.id} +Ann +${ann.slice(0, 16)} +this network +0:0\\d ago +no\n`))
  expect(out).toContain('One from outside pairs by PIN only')
  expect((await type('ctl pair status')).out).toContain('Waiting for approval: 2 devices')
  expect((await type('ctl summary')).out).toContain('2 devices waiting for approval.')

  expect(await type(`ctl approve ${second.id}`)).toMatchObject({
    code: 1,
    err: expect.stringContaining(`ctl pair arm --fingerprint ${bob}`),
  })
  expect(await json(`ctl pair arm --fingerprint ${bob.slice(0, 8)}`)).toMatchObject({ data: { armed: true } })
  expect(await type(`ctl deny ${second.id}`)).toMatchObject({ code: 0, out: 'Bob was sent away.\n' })
  expect(await type(`ctl deny ${second.id}`)).toMatchObject({ code: 1, err: 'pending device not found\n' })
  const approve = `ctl approve ${first.id} --name Anna --preset controller --expires-in 1h`
  expect((await type(approve)).out).toMatch(/^Anna is paired, with controller access until \d{4}-/)
  expect(await ('answer' in waits && waits.answer)).toBe('approved')
  expect(await json(`ctl approve ${first.id}`)).toMatchObject({ error: { code: 'refused' } })

  await type(`ctl access ${ann} view --for-good`)
  expect((await json('ctl clients')).data.native).toMatchObject([
    { access_level: 'view', expires_unix: null },
  ])
  await type(`ctl access ${ann} full --expires-in 0`)
  knock({ fingerprint: ann, name: 'Ann', address: '192.168.1.5' })
  const [again] = (await json('ctl pending')).data
  expect((await type('ctl pending')).out).toMatch(/full, over since \d{4}-/)
  expect((await type(`ctl approve ${again.id}`)).out).toContain('its access has been over since')
})

test('a prefix that two devices share touches neither', async () => {
  await pair(ann, `${ann.slice(0, 10)}${bob.slice(10)}`)
  expect(await type(`ctl unpair ${ann.slice(0, 10)}`)).toMatchObject({
    code: 1,
    err: expect.stringContaining('2 paired devices have a fingerprint that begins with'),
  })
  expect((await json('ctl clients')).data.native).toHaveLength(2)
})

test('wrong usage is exit code 2, with a suggestion where there is one', async () => {
  expect(await type('ctl statu')).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('Did you mean status?'),
  })
  expect(await type('ctl pair am')).toMatchObject({
    code: 2,
    err: expect.stringContaining('Did you mean arm?'),
  })
  for (const line of [
    'ctl',
    'ctl pair',
    'ctl status extra',
    'ctl status --nope',
    'ctl pair arm --ttl soon',
    'ctl pair arm --preset king',
    `ctl access ${ann} owner`,
    'ctl access',
    `ctl access ${ann} full --expires-in 1h --for-good`,
    'ctl approve',
    'ctl approve first',
    'ctl approve 1 --preset king',
    'ctl deny -1',
    'ctl rename zz x',
    'ctl unpair',
    `ctl unpair ${ann} --all`,
    'ctl display release one',
    'ctl watch --since then',
  ])
    expect(await type(line), line).toMatchObject({ code: 2, out: '', err: expect.stringMatching(/\S/) })
  expect(await json('ctl pair arm --ttl soon')).toMatchObject({ v: 1, error: { code: 'usage' } })
})

test('help is no error', async () => {
  for (const line of ['ctl --help', 'ctl pair --help', 'ctl pair arm --help', 'ctl help watch'])
    expect(await type(line), line).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/^Usage: svc-host ctl/),
    })
})

test('where no host ever ran, or none runs now, is exit code 3; another certificate is 4', async () => {
  const elsewhere = await mkdtemp(join(tmpdir(), 'svc-host-none-'))
  try {
    const env = { SVC_CONFIG_DIR: elsewhere }
    const signal = new AbortController().signal
    expect(await type('ctl status', signal, env)).toMatchObject({
      code: 3,
      err: expect.stringContaining('no host has run'),
    })

    const other = await startHost({ extensions: ['status'], configDir: elsewhere })
    const { port } = other
    await other.stop()
    expect(await type('ctl status', signal, env)).toMatchObject({
      code: 3,
      err: expect.stringContaining(String(port)),
    })

    await writeFile(join(elsewhere, 'mgmt-endpoint'), `SVC_MGMT_URL=https://127.0.0.1:${host.port}\n`)
    const mismatch = await type('ctl status --json', signal, env)
    expect(mismatch.code).toBe(4)
    expect(JSON.parse(mismatch.out)).toMatchObject({ error: { code: 'pin-mismatch' } })
  } finally {
    await rm(elsewhere, { recursive: true, force: true })
  }
})

test('a verb whose extension is off says that', async () => {
  await host.extensions.enable('status', false)
  expect(await type('ctl status')).toMatchObject({ code: 1, err: expect.stringContaining('is not on') })
  // The address in the advice is a convenience, not a need.
  expect(await type('ctl pair arm')).toMatchObject({ code: 0 })
  await host.extensions.enable('status', true)
})

test('watch prints events as lines, says when it was cut off, and misses nothing', async () => {
  const stop = new AbortController()
  const out = sink()
  const around = {
    out: out.stream,
    err: sink().stream,
    env: { SVC_CONFIG_DIR: configDir },
    signal: stop.signal,
  }
  const first = host.emit(tick, { n: 1 })
  const ended = run(['ctl', 'watch', '--kinds', 'test.*', '--since', String(first.seq - 1)], around)
  const lines = () =>
    out
      .text()
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
  await expect.poll(lines).toEqual([expect.objectContaining({ kind: 'test.tick', n: 1, seq: first.seq })])

  await host.extensions.enable('events', false)
  host.emit(tick, { n: 2 })
  await expect.poll(() => lines().at(-1).kind).toBe('ctl.disconnected')
  await host.extensions.enable('events', true)
  await expect.poll(() => lines().map(({ kind, n }) => n ?? kind), { timeout: 5000 }).toContain(2)
  stop.abort()
  expect(await ended).toBe(0)
  expect(lines().flatMap(({ n }) => n ?? [])).toEqual([1, 2])
})
