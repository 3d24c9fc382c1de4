// Packages on a running host: in, replaced, back and out again, each time with nothing left that should not be.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type PackageOptions, packFolder, writePackage } from '../../test/harness/packages.ts'

let shop: string
let host: TestHost
beforeAll(() => {
  shop = mkdtempSync(join(tmpdir(), 'svc-shop-'))
})
afterAll(() => rmSync(shop, { recursive: true }))
beforeEach(async () => {
  host = await startHost({ extensions: ['plugins'] })
})
afterEach(() => host.stop())

const pack = (id: string, options: PackageOptions = {}): Promise<string> => {
  const folder = mkdtempSync(join(shop, 'p-'))
  return packFolder(writePackage(folder, id, options), join(folder, 'package.tgz'))
}

/** Begins an operation and waits for its end. */
async function operate(path: string, body: object) {
  const begun = await host.inject('POST', `/store/${path}`, { body })
  if (begun.status !== 202)
    return { status: begun.status, state: 'refused', error: begun.json.error, log: [] }
  for (;;) {
    const { json } = await host.inject('GET', `/store/jobs/${begun.json.job}`)
    if (json.state !== 'running') return json
    await new Promise(done => setTimeout(done, 10))
  }
}
const add = (file: string, more: object = {}) =>
  operate('install', { spec: `file:${file}`, accept_unverified: true, trust: true, ...more })
const answer = async (path: string) => {
  const { status, json } = await host.inject('GET', path)
  return status === 200 ? json.version : status
}
const installed = async () => (await host.inject('GET', '/store/installed')).json

/** Every file below the config folder with its content, less what says when something happened. */
const tree = (): Record<string, string> =>
  Object.fromEntries(
    readdirSync(host.configDir, { recursive: true, withFileTypes: true })
      .filter(entry => entry.name !== 'journal')
      .map(entry => {
        const path = join(entry.parentPath, entry.name)
        return [path.slice(host.configDir.length), entry.isFile() ? readFileSync(path, 'utf8') : 'folder']
      }),
  )

test('a packed package is added, answers, and is removed with all that it had', async () => {
  await host.extensions.enable('plugins', true)
  const before = [tree(), (await host.inject('GET', '/extensions')).json]
  const file = await pack('tiny', {
    setup: `
    const note = await ctx.document('note.json', z.object({}).loose()); await note.write({ a: 1 })`,
  })
  expect(await add(file)).toMatchObject({ kind: 'install', state: 'done', phase: 'done' })
  expect(await answer('/tiny')).toBe('1.0.0')
  expect(await installed()).toMatchObject([
    {
      pkg: 'svc-plugin-tiny',
      version: '1.0.0',
      tier: 'unverified',
      running: true,
      plugin_id: 'tiny',
      integrity: expect.stringMatching(/^sha512-/),
    },
  ])
  expect(existsSync(join(host.configDir, 'plugin-state/tiny/note.json'))).toBe(true)

  expect(await operate('uninstall', { pkg: 'svc-plugin-tiny' })).toMatchObject({ state: 'done' })
  expect(await answer('/tiny')).toBe(404)
  expect([tree(), (await host.inject('GET', '/extensions')).json]).toEqual(before)
})

const v1 = { version: '1.0.0' }
const v2 = { version: '2.0.0' }
const update = async (options: PackageOptions) => add(await pack('tiny', options), { trust: false })

test('an update replaces the running version, and a rollback brings the former one back, both without the network', async () => {
  await add(await pack('tiny', v1))
  expect(await update(v2)).toMatchObject({ state: 'done' })
  expect(await answer('/tiny')).toBe('2.0.0')
  expect(await installed()).toMatchObject([{ version: '2.0.0', previous_version: '1.0.0', running: true }])
  expect(await operate('rollback', { pkg: 'svc-plugin-tiny' })).toMatchObject({
    kind: 'rollback',
    state: 'done',
  })
  expect(await answer('/tiny')).toBe('1.0.0')
  expect(await update({ version: '3.0.0' })).toMatchObject({ state: 'done' })
  // Of older versions nothing is kept.
  const versions = readdirSync(join(host.configDir, 'plugins/.versions/tiny'))
  expect(versions.sort()).toEqual(['1.0.0', '3.0.0'])
  expect(host.events().some(({ kind }) => kind === 'store.changed')).toBe(true)
  const phases = host.events().flatMap(e => (e.kind === 'store.progressed' ? [e['phase']] : []))
  expect(phases).toEqual(expect.arrayContaining(['fetching', 'checking', 'installing', 'starting', 'done']))
})

test.each([
  [
    'throws in its setup',
    { ...v2, setup: 'throw new Error("no bulb")' },
    /did not come up: setup failed: no bulb; 1\.0\.0 is on again/,
  ],
  [
    'needs what nobody has',
    { ...v2, manifest: { requires: { 'test.lamp': '^1.0.0' } } },
    /did not come up: needs service test\.lamp.*; 1\.0\.0 is on again/,
  ],
  [
    'does not load',
    { ...v2, main: 'import { nothing } from "zod"\nexport default 1' },
    /did not come up: .*; 1\.0\.0 is on again/,
  ],
])('an update that %s is taken back by itself', async (_name, options: PackageOptions, why) => {
  await add(await pack('tiny', v1))
  const before = tree()
  expect(await update(options)).toMatchObject({ state: 'failed', error: expect.stringMatching(why) })
  expect(await answer('/tiny')).toBe('1.0.0')
  expect(tree()).toEqual(before)
})

test('the config and the state of a plugin outlive updates, and removing it with its data kept', async () => {
  const setup = `const note = await ctx.document('note.json', z.object({ starts: z.number().default(0) }))
    await note.write(({ starts }) => ({ starts: starts + 1 }))`
  await add(await pack('tiny', { ...v1, setup }))
  await update({ ...v2, setup })
  const note = join(host.configDir, 'plugin-state/tiny/note.json')
  expect(JSON.parse(readFileSync(note, 'utf8'))).toMatchObject({ starts: 2 })
  await operate('uninstall', { pkg: 'svc-plugin-tiny', keep_data: true })
  expect(existsSync(note)).toBe(true)
  expect(existsSync(join(host.configDir, 'plugins'))).toBe(false)
  await add(await pack('tiny', { ...v1, setup }))
  expect(JSON.parse(readFileSync(note, 'utf8'))).toMatchObject({ starts: 3 })
  await operate('uninstall', { pkg: 'svc-plugin-tiny' })
  expect(existsSync(join(host.configDir, 'plugin-state'))).toBe(false)
})

test.each([
  ['dependencies', { packageJson: { dependencies: { leftpad: '1' } } }, /dependencies \(leftpad\)/],
  [
    'another id than its name',
    { pkg: 'svc-plugin-other' },
    /id is "tiny", but the package svc-plugin-other holds "other"/,
  ],
  ['a name that no plugin has', { pkg: 'tiny' }, /a plugin is @scope\/plugin-name or svc-plugin-name/],
  ['two versions', { manifest: { version: '9.0.0' } }, /says version 9\.0\.0, package\.json 1\.0\.0/],
  [
    'an import that nobody supplies',
    { main: 'import x from "leftpad"\nexport default x' },
    /imports "leftpad", which the host does not supply/,
  ],
  [
    'a module that is not there',
    { main: 'export { default } from "./other.js"' },
    /other\.js.*is not in the package/,
  ],
  ['what is no module', { main: 'import from from from' }, /index\.js is not an ES module/],
  ['no manifest', { manifest: { id: undefined } }, /extension\.json/],
  ['a range of another sdk', { manifest: { sdk: '^9.0.0' } }, /needs sdk \^9\.0\.0/],
  [
    'the name of a built-in',
    { pkg: 'svc-plugin-plugins', manifest: { id: 'plugins' } },
    /the name of a built-in extension/,
  ],
])('a package with %s is refused with a sentence, and leaves nothing', async (_name, options, why) => {
  const before = tree()
  expect(await add(await pack('tiny', options as PackageOptions))).toMatchObject({
    state: 'failed',
    error: expect.stringMatching(why),
  })
  expect(tree()).toEqual(before)
})

test('the process of the host is for those whom the operator trusts; nothing else of an archive is run', async () => {
  const file = await pack('tiny', {
    packageJson: {
      scripts: {
        preinstall: 'touch /tmp/svc-never',
        postinstall: 'touch /tmp/svc-never',
        prepare: 'touch /tmp/svc-never',
      },
    },
  })
  expect(await add(file, { trust: false })).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('--trust'),
  })
  expect(await add(file)).toMatchObject({
    state: 'done',
    log: expect.arrayContaining([expect.stringContaining('never run')]),
  })
  expect(existsSync('/tmp/svc-never')).toBe(false)
})

test('one version has one content, one id one package, one host one operation', async () => {
  await add(await pack('tiny', v1))
  expect(await update(v1)).toMatchObject({
    state: 'done',
    log: ['svc-plugin-tiny 1.0.0 is installed already'],
  })
  expect(await update({ ...v1, setup: '// other' })).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('a version never changes'),
  })
  expect(await add(await pack('tiny', { ...v2, pkg: '@acme/plugin-tiny' }))).toMatchObject({
    state: 'failed',
    error: 'svc-plugin-tiny holds "tiny" already; remove it first',
  })
  const body = { spec: `file:${await pack('tiny', v2)}`, accept_unverified: true }
  const both = await Promise.all([1, 2].map(() => host.inject('POST', '/store/install', { body })))
  expect(both.map(({ status }) => status).sort()).toEqual([202, 409])
  await expect.poll(async () => (await host.inject('GET', '/store/jobs')).json.at(-1).state).toBe('done')
})

test('what cannot be asked is refused before there is a job', async () => {
  for (const body of [
    {},
    { spec: 'svc-plugin-tiny' },
    { spec: 'https://example.org/x.tgz', accept_unverified: true },
    { spec: 'file:relative.tgz', accept_unverified: true },
    { spec: 'svc-plugin-tiny@--flag', accept_unverified: true },
    { source: 'svc', id: 'nothing' },
  ])
    expect((await host.inject('POST', '/store/install', { body })).status, JSON.stringify(body)).toBe(400)
  expect((await host.inject('POST', '/store/uninstall', { body: { pkg: 'nobody' } })).json.error).toBe(
    'nobody is not installed',
  )
  expect((await host.inject('POST', '/store/rollback', { body: { pkg: 'nobody' } })).status).toBe(400)
  expect((await host.inject('GET', '/store/jobs/none')).status).toBe(404)
  expect((await host.inject('GET', '/store/jobs')).json).toEqual([])
})

test('what a plugin has done outside the process keeps it installed until it can be undone', async () => {
  const undo = `import { existsSync, rmSync } from 'node:fs'
    export default { mark: { undo ({ path }) { if (existsSync(path + '.stuck')) throw new Error('stuck'); rmSync(path, { force: true }) } } }`
  const mark = join(shop, 'mark')
  const setup = `await ctx.durable('mark', { path: '${mark}' }, async () => (await import('node:fs')).writeFileSync('${mark}', ''))`
  await add(await pack('tiny', { setup, files: { 'undo.js': undo }, manifest: { undo: 'undo.js' } }))
  expect(existsSync(mark)).toBe(true)
  writeFileSync(`${mark}.stuck`, '')
  expect(await operate('uninstall', { pkg: 'svc-plugin-tiny' })).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('could not be taken back'),
  })
  expect(await installed()).toHaveLength(1)
})

test('a package for the isolate realm needs nobody’s trust: added, updated, taken back and removed with all that was decided', async () => {
  const setup = 'await ctx.storage.set("by", ctx.config.by)'
  const sandboxed = (options: PackageOptions) =>
    pack('tiny', { setup, ...options, realm: 'isolate', importsSdk: true })
  await host.extensions.enable('plugins', true)
  /** What is on disk, and what the API says of everything that there was to say. */
  const everything = async () => [
    tree(),
    ...(await Promise.all(
      ['', '/tiny/permissions', '/tiny/config'].map(async path => {
        const { status, json } = await host.inject('GET', `/extensions${path}`)
        return { status, json }
      }),
    )),
    await host.inject('GET', '/ext/tiny').then(({ status }) => status),
    (await host.inject('GET', '/store/installed')).json,
    (await host.inject('GET', '//openapi.json')).status,
  ]
  const before = await everything()
  expect(await add(await sandboxed(v1), { trust: false, grant: 'all' })).toMatchObject({ state: 'done' })
  expect(await answer('/ext/tiny')).toBe('1.0.0')
  expect(await add(await sandboxed(v2), { trust: false })).toMatchObject({ state: 'done' })
  expect(await answer('/ext/tiny')).toBe('2.0.0')
  const broken = await sandboxed({ version: '3.0.0', setup: 'throw new Error("no bulb")' })
  expect(await add(broken, { trust: false })).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('2.0.0 is on again'),
  })
  expect(await operate('rollback', { pkg: 'svc-plugin-tiny' })).toMatchObject({ state: 'done' })
  expect(await answer('/ext/tiny')).toBe('1.0.0')
  // Everything that can be decided about one, so that there is something to forget.
  const put = (path: string, body: object) => host.inject('PUT', `/extensions/tiny${path}`, { body })
  expect((await put('/config', { values: { by: 'night' } })).status).toBe(200)
  expect((await put('/permissions', { refused: ['routes'] })).status).toBe(200)
  expect((await put('', { enabled: false })).status).toBe(200)
  await operate('uninstall', { pkg: 'svc-plugin-tiny' })
  expect(await everything()).toEqual(before)
})

test('a token comes and goes with the package, and with it what the plugin has registered', async () => {
  const both = await startHost({ extensions: ['plugins', 'registrations'] })
  try {
    const spec = { spec: `file:${await pack('tiny')}`, accept_unverified: true, trust: true }
    const done = async (path: string, body: object): Promise<void> => {
      const { job } = (await both.inject('POST', `/store/${path}`, { body })).json
      const state = async () => (await both.inject('GET', `/store/jobs/${job}`)).json.state
      await expect.poll(state, { timeout: 15_000 }).toBe('done')
    }
    await done('install', spec)
    const file = join(both.configDir, 'plugin-run/plugin-tokens.json')
    const { tiny: token } = JSON.parse(readFileSync(file, 'utf8'))
    const register = () => both.inject('PUT', '/plugins/tiny', { body: { title: 'Tiny' }, token })
    expect((await register()).status).toBe(204)
    await done('uninstall', { pkg: 'svc-plugin-tiny' })
    expect((await register()).status).toBe(401)
    await expect.poll(async () => (await both.inject('GET', '/plugins')).json).toEqual([])
    expect(existsSync(join(both.configDir, 'plugin-run'))).toBe(false)
  } finally {
    await both.stop()
  }
})

test('a ledger that cannot be read stops operations, and what it names is left alone', async () => {
  await add(await pack('tiny', v1))
  const ledger = join(host.configDir, 'plugins/package.json')
  const good = readFileSync(ledger, 'utf8')
  writeFileSync(ledger, good.slice(0, 20))
  expect(await add(await pack('lamp'))).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('mend it'),
  })
  expect(existsSync(join(host.configDir, 'plugins/.versions/tiny/1.0.0/index.js'))).toBe(true)
  expect(await answer('/tiny')).toBe('1.0.0')
  writeFileSync(ledger, good)
  expect(await update(v2)).toMatchObject({ state: 'done' })
  expect(await answer('/tiny')).toBe('2.0.0')
})

test('an operation that is cut short by switching the extension off leaves the former state', async () => {
  await add(await pack('tiny', v1))
  const slow = await pack('tiny', { ...v2, setup: 'await new Promise(done => setTimeout(done, 3000))' })
  const before = tree()
  const body = { spec: `file:${slow}`, accept_unverified: true }
  expect((await host.inject('POST', '/store/install', { body })).status).toBe(202)
  await expect.poll(async () => (await host.inject('GET', '/store/jobs')).json.at(-1).phase).toBe('starting')
  await host.extensions.enable('plugins', false)
  await host.extensions.enable('plugins', true)
  await host.extensions.reload()
  expect(await answer('/tiny')).toBe('1.0.0')
  await expect.poll(tree).toEqual({ ...before, '/extensions.json': expect.anything() })
})
