// What packages ask for: shown, granted, refused, asked anew only for more, and forgotten with the package.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { beyond } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { type PackageOptions, packFolder, writePackage } from '../../test/harness/packages.ts'
import { decidedBy, granting, nothingDecided, undecided } from './consent.ts'

let shop: string
let host: TestHost
beforeAll(async () => {
  shop = mkdtempSync(join(tmpdir(), 'svc-permissions-'))
  host = await startHost({ extensions: ['plugins'] })
})
afterAll(async () => {
  await host.stop()
  rmSync(shop, { recursive: true })
})
// One host for all: what each test leaves behind would be in the way of the next.
afterEach(() => remove())

/** A package that asks for these besides its route. */
const pack = (version: string, asks: readonly string[], options: PackageOptions = {}): Promise<string> => {
  const folder = mkdtempSync(join(shop, 'p-'))
  const manifest = { permissions: ['routes', ...asks] }
  const made = writePackage(folder, 'tiny', {
    version,
    realm: 'isolate',
    importsSdk: true,
    manifest,
    ...options,
  })
  return packFolder(made, join(folder, 'package.tgz'))
}
const operate = async (path: string, body: object) => {
  const begun = await host.inject('POST', `/store/${path}`, { body })
  if (begun.status !== 202) return { state: 'refused', ...begun.json }
  for (;;) {
    const { json } = await host.inject('GET', `/store/jobs/${begun.json.job}`)
    if (json.state !== 'running') return json
    await new Promise(done => setTimeout(done, 10))
  }
}
const add = (file: string, grant?: 'all' | readonly string[]) =>
  operate('install', { spec: `file:${file}`, accept_unverified: true, grant })
const remove = (keep_data = false) => operate('uninstall', { pkg: 'svc-plugin-tiny', keep_data })
const tiny = () => host.extensions.list().find(({ id }) => id === 'tiny')
const states = () =>
  Object.fromEntries((tiny()?.permissions ?? []).map(({ permission, state }) => [permission, state]))
const permit = (body: object, id = 'tiny') => host.inject('PUT', `/extensions/${id}/permissions`, { body })
const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', ...argv)

const events = 'events:session.*'
const net = 'network:api.example.com'

test('what nobody has granted waits; granting starts it, refusing takes one away, removing forgets it all', async () => {
  const file = await pack('1.0.0', [events, net])
  const added = await type('add', file)
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining('plugins grant tiny') })
  expect(tiny()).toMatchObject({ state: 'waiting', why: expect.stringContaining('which nobody has granted') })
  expect((await type('list')).out).toMatch(/tiny waits for you: svc-host plugins grant tiny/)
  expect((await host.inject('GET', '/extensions/tiny/permissions')).json).toEqual({
    id: 'tiny',
    permissions: [
      { permission: 'routes', state: 'asked', meaning: 'answer requests under its own path of the API' },
      { permission: events, state: 'asked', meaning: 'see events session.*' },
      { permission: net, state: 'asked', meaning: 'reach api.example.com over the network' },
    ],
  })
  // Nobody is there to be asked.
  expect(await type('grant', 'tiny')).toMatchObject({ code: 2, err: expect.stringContaining('--yes') })
  expect(await type('grant', 'tiny', '--yes')).toMatchObject({
    code: 0,
    out: expect.stringContaining('tiny is on.'),
  })
  expect((await host.inject('GET', '/ext/tiny')).json).toEqual({ version: '1.0.0' })
  expect(host.events().some(each => each.kind === 'permissions.changed' && each['id'] === 'tiny')).toBe(true)

  expect(await type('revoke', 'tiny', net)).toMatchObject({ code: 0 })
  expect(states()).toEqual({ routes: 'granted', [events]: 'granted', [net]: 'refused' })
  expect((await type('info', 'tiny')).out).toMatch(/^refused: +network:api\.example\.com \(reach .*\)$/m)
  expect(JSON.parse((await type('grant', 'tiny', net, '--json')).out).data.permissions).toContainEqual({
    permission: net,
    state: 'granted',
    meaning: expect.any(String),
  })

  await remove(true)
  expect(host.extensions.decided('tiny')).toEqual(nothingDecided)
  expect(await add(file)).toMatchObject({ state: 'done' })
  expect(tiny()?.state).toBe('waiting')
})

test('what is granted with the installation is on at once; the rest is still asked for', async () => {
  expect(await add(await pack('1.0.0', [events]), 'all')).toMatchObject({ state: 'done' })
  expect(tiny()?.state).toBe('on')
  await remove()
  expect(
    (await type('add', await pack('1.0.0', [events, net]), '--grant', 'routes', '--grant', events)).code,
  ).toBe(0)
  expect(states()).toEqual({ routes: 'granted', [events]: 'granted', [net]: 'asked' })
  await remove()

  // What a stranger has written turns nothing round on a terminal.
  const sly = await type('add', await pack('1.0.0', ['read:/tmp/\u202egpj.exe']))
  expect(sly.out).toContain('read:/tmp/gpj.exe')
  expect(sly.out).not.toContain('\u202e')
  await remove()

  const leftBefore = readdirSync(host.configDir).sort()
  expect(await add(await pack('1.0.0', [events]), ['read:/etc'])).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('does not ask for read:/etc'),
  })
  expect(await add(await pack('1.0.0', [events]), ['nonsense'])).toMatchObject({ state: 'refused' })
  expect(await type('add', await pack('1.0.0', []), '--grant', 'tiny')).toMatchObject({ code: 2 })
  expect(readdirSync(host.configDir).sort()).toEqual(leftBefore)
  expect(host.extensions.decided('tiny')).toEqual(nothingDecided)
})

test('an update asks only for more: that fails before anything changes, until it is granted', async () => {
  await add(await pack('1.0.0', [events]), 'all')
  const ledger = () => readFileSync(join(host.configDir, 'plugins/package.json'), 'utf8')
  const before = [ledger(), host.extensions.decided('tiny')]
  const wider = await pack('2.0.0', ['events:*', net])
  expect(await add(wider)).toMatchObject({
    state: 'failed',
    error_code: 'permissions',
    asks: ['events:*', net],
  })
  expect(await type('add', wider)).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /asks for more than was decided: events:\* and network:api\.example\.com; .*--grant/,
    ),
  })
  expect([ledger(), host.extensions.decided('tiny')]).toEqual(before)
  expect(tiny()).toMatchObject({ state: 'on', version: '1.0.0' })
  expect(existsSync(join(host.configDir, 'plugins/.versions/tiny/2.0.0'))).toBe(false)

  // One that was granted and does not come up takes its grants with it.
  const broken = await pack('1.5.0', [net], { setup: 'throw new Error("no bulb")' })
  expect(await add(broken, 'all')).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('no bulb'),
  })
  expect([tiny()?.state, host.extensions.decided('tiny')]).toEqual(['on', before[1]])

  expect(await add(await pack('1.9.0', ['events:session.started']))).toMatchObject({ state: 'done' })
  expect(await add(wider, 'all')).toMatchObject({ state: 'done' })
  expect([tiny()?.version, tiny()?.state]).toEqual(['2.0.0', 'on'])
  // What was refused is decided too.
  await permit({ refused: [net] })
  expect(await add(await pack('2.1.0', ['events:*', net]))).toMatchObject({ state: 'done' })
  expect(states()).toMatchObject({ [net]: 'refused', 'events:*': 'granted' })
})

test('going back widens nothing either, and what waits may be replaced by what waits', async () => {
  await add(await pack('1.0.0', [events]))
  expect(await add(await pack('2.0.0', [events, net]))).toMatchObject({ state: 'done' })
  expect([tiny()?.version, tiny()?.state]).toEqual(['2.0.0', 'waiting'])
  expect(await add(await pack('3.0.0', []), ['routes'])).toMatchObject({ state: 'done' })
  expect(tiny()?.state).toBe('on')
  expect(await operate('rollback', { pkg: 'svc-plugin-tiny' })).toMatchObject({
    error_code: 'permissions',
    asks: [events, net],
  })
  expect([tiny()?.version, tiny()?.state]).toEqual(['3.0.0', 'on'])
  expect(await operate('rollback', { pkg: 'svc-plugin-tiny', grant: 'all' })).toMatchObject({ state: 'done' })
  expect([tiny()?.version, tiny()?.state]).toEqual(['2.0.0', 'on'])
})

test('a decision about what is not asked for, not there or built in is refused with a sentence', async () => {
  await add(await pack('1.0.0', [events]))
  const said = async (body: object, id?: string) => {
    const { status, json } = await permit(body, id)
    return `${status} ${json.error}`
  }
  expect(await said({ granted: ['read:/etc'] })).toMatch(
    /^400 tiny does not ask for read:\/etc; it asks for routes/,
  )
  expect(await said({ granted: ['telepathy'] })).toMatch(/^400 .*there is no kind "telepathy"/)
  expect(await said({ granted: [events], refused: [events] })).toMatch(/^400 .*at once/)
  expect(await said({ granted: 'all' }, 'nobody')).toMatch(/^404 /)
  expect(await said({ refused: ['events:*'] }, 'plugins')).toMatch(/^400 plugins does not ask/)
  expect((await host.inject('PUT', '/extensions/tiny/permissions', { body: {}, token: null })).status).toBe(
    401,
  )
  expect(tiny()?.state).toBe('waiting')
})

test('what a crash has left decided is taken back with the next start', async () => {
  const configDir = mkdtempSync(join(shop, 'crashed-'))
  const write = (path: string, value: object): void =>
    writeFileSync(join(configDir, path), JSON.stringify(value))
  mkdirSync(join(configDir, 'plugins'))
  const before = { granted: ['routes'], refused: [events] }
  write('plugins/package.json', { restoring: { lamp: before }, removing: [{ id: 'ghost', keepData: true }] })
  const widened = { granted: ['routes', 'events:*'], refused: [] }
  write('extensions.json', { permissions: { lamp: widened, ghost: widened } })
  const next = await startHost({ extensions: ['plugins'], configDir })
  try {
    expect(next.extensions.decided('lamp')).toEqual(before)
    expect(next.extensions.decided('ghost')).toEqual(nothingDecided)
    expect(existsSync(join(configDir, 'plugins'))).toBe(false)
  } finally {
    await next.stop()
  }
})

const permission = fc.oneof(
  fc.constantFrom(
    'events:*',
    events,
    'events:session.started',
    'routes',
    'page',
    'api:host',
    'network:*.example.com',
  ),
  fc.constantFrom(
    net,
    'network:api.example.com:8443',
    'read:/a',
    'write:/a',
    'read:/a/b',
    'exec:/bin/true {x}',
  ),
)
const permissions = fc.uniqueArray(permission, { maxLength: 5 })

test('whatever was decided before: what is granted is granted, and all that is asked for is decided after "all"', () => {
  fc.assert(
    fc.property(permissions, permissions, permissions, (granted, refused, asks) => {
      const before = decidedBy(decidedBy(nothingDecided, { granted }), { refused })
      const after = granting(before, 'all', asks)
      expect(undecided(after, asks)).toEqual([])
      // Nobody who was refused something has it by a grant of all.
      expect(after.refused).toEqual(before.refused)
      const named = decidedBy(before, { granted: asks })
      expect(beyond(named.granted, asks)).toEqual([])
      expect(named.granted.filter(each => named.refused.includes(each))).toEqual([])
    }),
  )
})
