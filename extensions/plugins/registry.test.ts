// Packages from a registry: a real one on loopback, published to by npm, found by npm's own configuration.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { type PackageOptions, packFolder, writePackage } from '../../test/harness/packages.ts'
import { type Registry, startRegistry } from '../../test/harness/registry.ts'

// npm takes seconds for each call where others work too.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

let registry: Registry
let host: TestHost
let shop: string
const before = { ...process.env }
beforeAll(async () => {
  shop = mkdtempSync(join(tmpdir(), 'svc-registry-shop-'))
  registry = await startRegistry('@svc')
  Object.assign(process.env, registry.env)
  host = await startHost({ extensions: ['plugins'] })
})
afterAll(async () => {
  process.env = before
  await host?.stop()
  await registry?.stop()
  rmSync(shop, { recursive: true })
})

const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', ...argv)
const publish = (id: string, options: PackageOptions = {}): Promise<void> =>
  registry.publish(writePackage(mkdtempSync(join(shop, 'p-')), id, { pkg: `@svc/plugin-${id}`, ...options }))
const version = async () => (await host.inject('GET', '/tiny')).json?.version

test('a name is found in the vendor’s scope, updated to the newest, and taken back when that does not come up', async () => {
  await publish('tiny')
  expect(await type('add', 'tiny', '--trust')).toMatchObject({
    code: 0,
    out: expect.stringContaining('@svc/plugin-tiny 1.0.0 is installed'),
  })
  expect(await version()).toBe('1.0.0')
  expect((await type('update')).out).toContain('@svc/plugin-tiny 1.0.0 is installed already')
  await publish('tiny', { version: '1.1.0' })
  expect(await type('update', 'tiny')).toMatchObject({ code: 0 })
  expect(await version()).toBe('1.1.0')
  await publish('tiny', { version: '1.2.0', setup: 'throw new Error("no bulb")' })
  expect(await type('update', 'tiny')).toMatchObject({
    code: 1,
    err: expect.stringContaining('1.1.0 is on again'),
  })
  expect(await version()).toBe('1.1.0')
  expect(await type('update', 'tiny', '--version', '1.0.0')).toMatchObject({ code: 0 })
  expect(await version()).toBe('1.0.0')
  expect(readdirSync(join(host.configDir, 'plugins')).sort()).toEqual(['.versions', 'package.json'])
})

test('what the registry does not have, or has changed behind npm’s back, is refused in one sentence', async () => {
  expect(await type('add', 'nobody')).toMatchObject({
    code: 1,
    err: expect.stringContaining(
      `npm, asked for @svc/plugin-nobody@latest: the registry ${new URL(registry.url).origin} does not have it`,
    ),
  })
  await publish('changed')
  const stored = join(registry.storage, '@svc/plugin-changed/plugin-changed-1.0.0.tgz')
  writeFileSync(stored, 'something else')
  const refused = await type('add', 'changed')
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringMatching(/what the registry sent is not what it promises/),
  })
  expect(refused.err).not.toContain('127.0.0.1')
})

test('what a package needs of others is put beside a package, none of its scripts run, and sealed with it', async () => {
  const lib = {
    name: '@svc/lib',
    version: '1.2.3',
    scripts: { postinstall: 'touch ran', install: 'touch ran' },
  }
  const folder = mkdtempSync(join(shop, 'lib-'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify(lib))
  writeFileSync(join(folder, 'index.js'), '')
  await registry.publish(folder)
  const unit = mkdtempSync(join(shop, 'unit-'))
  const json = { name: '@svc/plugin-light', version: '1.0.0', type: 'module' }
  writeFileSync(
    join(unit, 'package.json'),
    JSON.stringify({ ...json, dependencies: { '@svc/lib': '^1.0.0' } }),
  )
  writeFileSync(join(unit, 'index.js'), "import '@svc/lib'\nexport default { name: 'light', main() {} }")
  const file = await packFolder(unit, `${unit}.tgz`)
  expect(await type('add', file)).toMatchObject({ code: 0, err: '' })
  const beside = join(host.configDir, 'plugins/.versions/light/1.0.0/node_modules')
  expect(readdirSync(beside)).toEqual(['@svc'])
  expect(readdirSync(join(beside, '@svc/lib')).sort()).toEqual(['index.js', 'package.json'])
  const ledger = JSON.parse(readFileSync(join(host.configDir, 'plugins/package.json'), 'utf8'))
  const { seal } = await host.extensions.examine(join(beside, '..'))
  expect(ledger.seals['@svc/plugin-light']).toEqual({ '1.0.0': seal })
  // The same package again is the same, whatever npm makes of its dependencies.
  expect((await type('add', file)).out).toContain('is installed already')
  // So it is as the version before, which is still here and is not fetched again.
  writeFileSync(join(unit, 'package.json'), JSON.stringify({ ...json, version: '2.0.0' }))
  writeFileSync(join(unit, 'index.js'), "export default { name: 'light', main() {} }")
  expect(await type('add', await packFolder(unit, `${unit}-2.tgz`))).toMatchObject({ code: 0, err: '' })
  expect(await type('add', file)).toMatchObject({ code: 0, err: '' })
  expect((await host.extensions.examine(join(beside, '..'))).seal).toBe(seal)
  expect(await type('remove', 'light')).toMatchObject({ code: 0 })
})

test('a scope is looked up where it is said to be', async () => {
  const other = await startRegistry('@acme')
  try {
    const folder = writePackage(mkdtempSync(join(shop, 'o-')), 'lamp', { pkg: '@acme/plugin-lamp' })
    await other.publish(folder)
    const given = ['--allow-public-registry', '--trust', '--registry', `@acme=${other.url}`]
    expect(await type('add', '@acme/plugin-lamp', ...given)).toMatchObject({ code: 0 })
    expect(await type('remove', 'lamp', 'nobody')).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^nobody is not installed; installed: .*; nothing was removed/),
    })
    expect(await type('remove', 'lamp')).toMatchObject({ code: 0 })
  } finally {
    await other.stop()
  }
})
