// Finding extensions: what is wrong with one is a sentence beside it, and never a failed start of the others.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { discoverExtensions, Manifest } from '../../kernel/discover.ts'
import { startHost } from '../../kernel/index.ts'

let root: string
let builtin: string
let configDir: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-host-discover-'))
  builtin = join(root, 'extensions')
  configDir = join(root, 'config')
  await mkdir(configDir, { mode: 0o700 })
})
afterEach(() => rm(root, { recursive: true }))

const good = { id: 'good', version: '1.2.3', sdk: '^1.0.0', title: 'Good', realm: 'kernel', main: 'index.js' }
const write = async (
  folder: string,
  manifest: unknown,
  main = 'export default { setup() {} }',
): Promise<void> => {
  await mkdir(folder, { recursive: true })
  await writeFile(
    join(folder, 'extension.json'),
    typeof manifest === 'string' ? manifest : JSON.stringify(manifest),
  )
  await writeFile(join(folder, 'index.js'), main)
}
const problems = async (): Promise<Record<string, string | undefined>> =>
  Object.fromEntries(
    (await discoverExtensions(configDir, { builtin })).map(({ id, problem }) => [id, problem]),
  )
const installed = async (dependencies: Record<string, string>): Promise<void> => {
  await mkdir(join(configDir, 'plugins'), { recursive: true })
  await writeFile(join(configDir, 'plugins', 'package.json'), JSON.stringify({ dependencies }))
}
const run = async (options: { safe?: boolean } = {}) => {
  const lines: string[] = []
  const host = await startHost({
    configDir,
    flags: { 'mgmt-bind': '127.0.0.1:0' },
    env: {},
    found: await discoverExtensions(configDir, { builtin, ...options }),
    sink: { write: line => void lines.push(line) },
    isEmbedded: true,
  })
  const records = host.extensions.list()
  await host.stop()
  return records
}

test('each broken manifest is listed with its reason, and the good one runs', async () => {
  await write(join(builtin, 'good'), good)
  await write(join(builtin, 'no-json'), '{')
  await write(join(builtin, 'extra'), { ...good, id: 'extra', colour: 'blue' })
  await write(join(builtin, 'ranges'), { ...good, id: 'ranges', requires: { 'a.b': 'latest!' } })
  await write(join(builtin, 'renamed'), good)
  await write(join(builtin, 'future'), { ...good, id: 'future', sdk: '^9.0.0' })
  await write(join(builtin, 'boxed'), { ...good, id: 'boxed', realm: 'process', undo: 'undo.ts' })
  await write(join(builtin, 'escape'), { ...good, id: 'escape', main: '../../x.js' })
  await mkdir(join(builtin, 'no-manifest'))
  const found = await problems()
  expect(found['good']).toBeUndefined()
  expect(Object.keys(found)).not.toContain('no-manifest')
  expect(found['no-json']).toMatch(/^extension.json is not JSON/)
  expect(found['extra']).toBe('extension.json: Unrecognized key: "colour"')
  expect(found['ranges']).toBe('extension.json: requires.a.b: must be a range of versions')
  expect(found['renamed']).toBe('extension.json: id is "good", but its folder is "renamed"')
  expect(found['future']).toBe('needs sdk ^9.0.0, but this host has 1.0.0; install a version made for it')
  expect(found['boxed']).toBe(
    'has an undo module, which the process realm does not run; leave "undo" out of extension.json',
  )
  expect(found['escape']).toBe('extension.json: main: must be a path inside the folder')
  const records = await run()
  expect(records.filter(({ state }) => state === 'on').map(({ id }) => id)).toEqual(['good'])
  expect(records.find(({ id }) => id === 'extra')).toMatchObject({ state: 'failed', why: found['extra'] })
})

test('installed packages are found by the ledger at exactly their version, and not in safe mode', async () => {
  await write(join(builtin, 'good'), good)
  const versions = join(configDir, 'plugins', '.versions')
  await write(join(versions, 'tiny', '2.0.0'), { ...good, id: 'tiny' })
  await write(join(versions, 'tiny', '3.0.0'), { ...good, id: 'tiny', version: '3.0.0' })
  await write(join(versions, 'good', '9.9.9'), { ...good, version: '9.9.9' })
  await installed({ '@acme/plugin-tiny': '3.0.0', 'svc-plugin-gone': '^1.0.0', good: '9.9.9' })
  const found = await discoverExtensions(configDir, { builtin })
  expect(found.map(({ id, builtin: b, manifest }) => [id, b, manifest?.version])).toEqual([
    ['gone', false, undefined],
    ['good', true, '1.2.3'],
    ['tiny', false, '3.0.0'],
  ])
  expect(found[0]!.problem).toContain(join('.versions', 'gone', '1.0.0', 'extension.json'))
  expect((await discoverExtensions(configDir, { builtin, safe: true })).map(({ id }) => id)).toEqual(['good'])
})

test('an installed package cannot go by a noun of the host, under which it could speak in its name', async () => {
  await write(join(builtin, 'good'), { ...good, provides: { 'castle.gate': '1.0.0' } })
  const versions = join(configDir, 'plugins', '.versions')
  for (const id of ['castle', 'host', 'gate']) await write(join(versions, id, '1.2.3'), { ...good, id })
  await installed({ castle: '1.2.3', host: '1.2.3', gate: '1.2.3' })
  expect(await problems()).toEqual({
    castle: "its id is a noun of the host's own (castle.…); it needs another",
    host: "its id is a noun of the host's own (host.…); it needs another",
  })
})

test('the kernel realm is for those whom the operator trusts; three failed starts in a row quarantine', async () => {
  await write(
    join(configDir, 'plugins', '.versions', 'tiny', '1.2.3'),
    { ...good, id: 'tiny' },
    'throw new Error("boom")',
  )
  await installed({ tiny: '1.2.3' })
  expect((await run())[0]).toMatchObject({
    state: 'failed',
    why: 'wants the kernel realm, but is not trusted: add "tiny" to "trusted" in extensions.json',
  })
  await writeFile(join(configDir, 'extensions.json'), '{"trusted": ["tiny"]}')
  expect((await run())[0]).toMatchObject({ state: 'failed', why: 'setup failed: boom' })
  expect((await run())[0]!.state).toBe('failed')
  expect((await run())[0]).toMatchObject({
    state: 'quarantined',
    why: expect.stringContaining('failed 3 starts in a row'),
  })
  const [untouched] = await run()
  expect(untouched).toMatchObject({ state: 'quarantined', errors: 0 })
})

test('a broken ledger costs the installed packages and nothing else', async () => {
  await write(join(builtin, 'good'), good)
  await mkdir(join(configDir, 'plugins'))
  await writeFile(join(configDir, 'plugins', 'package.json'), '{')
  const records = await run()
  expect(records.map(({ id, state }) => [id, state])).toEqual([
    ['good', 'on'],
    ['installed-packages', 'failed'],
  ])
  expect(records[1]!.why).toMatch(/package\.json cannot be used: .*JSON/)
})

test('any JSON is either a manifest or a list of reasons', () => {
  const value = fc.oneof(
    fc.jsonValue(),
    fc.record({ id: fc.string(), version: fc.string(), settings: fc.jsonValue() }),
  )
  fc.assert(
    fc.property(value, json => {
      const { success, error } = Manifest.safeParse(json)
      expect(success || error!.issues.length > 0).toBe(true)
    }),
  )
})
