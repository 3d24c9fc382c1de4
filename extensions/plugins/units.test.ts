// Packages that are no extensions, for the plugin runner: in, decided about, replaced and out again, with what they need beside them.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Extensions } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { packFolder, writePackage } from '../../test/harness/packages.ts'

let shop: string
let host: TestHost
beforeAll(async () => {
  shop = mkdtempSync(join(tmpdir(), 'svc-units-'))
  host = await startHost({ extensions: ['plugins', 'registrations'] })
})
afterAll(async () => {
  await host.stop()
  rmSync(shop, { recursive: true })
})
const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', ...argv)
afterEach(async () => {
  if (existsSync(join(host.configDir, 'plugins'))) await type('remove', 'light')
})

const main = "export default { name: 'light', async main({ log }) { log.info('lit') } }"
/** A unit as an author packs it, with these files beside its own. */
const pack = (json: object = {}, files: Readonly<Record<string, string>> = {}): Promise<string> => {
  const folder = mkdtempSync(join(shop, 'u-'))
  const plain = { name: 'svc-plugin-light', version: '1.0.0', type: 'module', description: 'A light' }
  const all = { 'index.js': main, 'package.json': JSON.stringify({ ...plain, ...json }), ...files }
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return packFolder(folder, `${folder}.tgz`)
}
const asking = (...permissions: string[]) => ({ 'svc-host': { permissions } })
const rows = async () => (await host.inject('GET', '/store/installed')).json
const at = (path: string): string => join(host.configDir, path)

test('a unit is listed, waits for its grants, is updated, asked about anew and removed with its token', async () => {
  const before = [readdirSync(host.configDir).sort(), host.extensions.list()]
  const added = await type('add', await pack(asking('api:host', 'network:lamp.lan')))
  expect(added).toMatchObject({
    code: 0,
    out: expect.stringMatching(/plugin runner runs light.*light waits: nobody has granted/s),
  })
  expect(await rows()).toMatchObject([{ plugin_id: 'light', title: 'A light', unit: true, version: '1.0.0' }])
  expect((await type('status')).out).toContain('waits for you: svc-host plugins grant light')
  // It is none of the extensions that the host itself starts.
  expect(host.extensions.list()).toEqual(before[1])
  expect((await type('info', 'light')).out).toMatch(
    /^realm: +plugin runner\nasked: +api:host \(call the API: host\)/m,
  )
  expect((await type('grant', 'light', 'api:host')).code).toBe(0)
  expect((await type('revoke', 'light', 'network:lamp.lan')).code).toBe(0)
  expect(host.service(Extensions)?.decided('light')).toEqual({
    granted: ['api:host'],
    refused: ['network:lamp.lan'],
  })

  const wider = { version: '2.0.0', ...asking('api:host', 'network:*.lan') }
  expect(await type('add', await pack(wider))).toMatchObject({
    code: 1,
    err: expect.stringContaining('network:*.lan'),
  })
  expect(await type('add', await pack(wider), '--grant')).toMatchObject({ code: 0 })
  expect(await rows()).toMatchObject([{ version: '2.0.0', previous_version: '1.0.0' }])
  expect((await type('rollback', 'light')).code).toBe(0)
  expect((await type('status')).out).toMatch(/svc-plugin-light +1\.0\.0 +cli +not running/)

  const token = JSON.parse(readFileSync(at('plugin-run/plugin-tokens.json'), 'utf8')).light
  const register = () => host.inject('PUT', '/plugins/light', { body: { title: 'Light' }, token })
  // As the runner leaves it, which is not there now.
  writeFileSync(
    at('plugin-run/unit-tokens.json'),
    JSON.stringify({ light: { token, permissions: ['api:*'] } }),
  )
  expect((await register()).status).toBe(204)
  await type('remove', 'light')
  expect((await register()).status).toBe(401)
  await host.inject('GET', '/plugins')
  expect([readdirSync(host.configDir).sort(), host.extensions.list()]).toEqual([
    [...before[0]!, 'extensions.json'].sort(),
    before[1],
  ])
  expect(JSON.parse(readFileSync(at('extensions.json'), 'utf8'))).toMatchObject({ permissions: {} })
})

const lib = {
  'node_modules/lib/package.json': '{"name":"lib","version":"1.2.3"}',
  'node_modules/lib/index.js': '',
}

test('dependencies that it brings are part of it, and need no registry', async () => {
  const needs = { dependencies: { lib: '^1.0.0' }, bundleDependencies: ['lib'] }
  const added = await type('add', await pack(needs, { ...lib, 'index.js': `import 'lib'\n${main}` }))
  expect(added).toMatchObject({ code: 0, err: '' })
  const folder = at('plugins/.versions/light/1.0.0')
  expect(existsSync(join(folder, 'node_modules/lib/index.js'))).toBe(true)
  const seal = async () => (await host.service(Extensions)!.examine(folder)).seal
  const { seals } = JSON.parse(readFileSync(at('plugins/package.json'), 'utf8'))
  expect(await seal()).toBe(seals['svc-plugin-light']['1.0.0'])
  writeFileSync(join(folder, 'node_modules/lib/index.js'), '// changed')
  expect(await seal()).not.toBe(seals['svc-plugin-light']['1.0.0'])
})

test.each<[string, object, RegExp]>([
  [
    'a folder of this machine',
    { dependencies: { lib: 'file:../lib' } },
    /lib\) that are not versions of a registry/,
  ],
  ['a repository', { dependencies: { lib: 'git+ssh://git@example.org/lib' } }, /not versions of a registry/],
  [
    'an address',
    { optionalDependencies: { lib: 'https://example.org/lib.tgz' } },
    /not versions of a registry/,
  ],
  ['the host itself', { dependencies: { 'svc-host': '1' } }, /the host supplies it/],
  ['a hook point', asking('hooks:session.admit'), /"hooks" is for extensions/],
  ['telepathy', asking('telepathy:all'), /there is no kind "telepathy"/],
  ['a main outside', { main: '../../etc/passwd' }, /main must be a path inside the package/],
])('a unit that asks for %s is refused', async (_name, json, why) => {
  expect(await type('add', await pack(json))).toMatchObject({ code: 1, err: expect.stringMatching(why) })
  expect(await rows()).toEqual([])
})

test('one that cannot be updated does not keep the others from it', async () => {
  const before = { ...process.env }
  Object.assign(process.env, { npm_config_registry: 'http://127.0.0.1:9/', npm_config_fetch_retries: '0' })
  try {
    await type('add', await pack())
    await type('add', await pack({ name: 'svc-plugin-lamp' }))
    const { code, out } = await type('update', '--json')
    const refused = JSON.parse(out).data.refused.map(({ pkg }: { pkg: string }) => pkg)
    expect([code, refused]).toEqual([1, ['svc-plugin-light', 'svc-plugin-lamp']])
  } finally {
    process.env = before
    await type('remove', 'lamp')
  }
})

test('an extension of the process realm has what it brings beside it, through an update too', async () => {
  const own = await startHost({ extensions: ['plugins', 'runner'] })
  const typed = (...argv: string[]) => typeAt(own.configDir, 'plugins', ...argv)
  const make = async (version: string): Promise<string> => {
    const handler = `handler: () => ({ said: word + arch() + ' ${version}' })`
    const folder = writePackage(mkdtempSync(join(shop, 'r-')), 'tiny', {
      version,
      realm: 'process',
      packageJson: { dependencies: { lib: '^1.0.0' }, bundleDependencies: ['lib'] },
      main: `import { arch } from 'node:os'
        import { word } from 'lib'
        import { defineExtension } from 'svc-host/sdk'
        import { z } from 'zod'
        export default defineExtension({ setup(ctx) { ctx.route({ method: 'GET', path: '/ext/tiny', id: 'tiny',
          tag: 'x', summary: 'x', lanes: { plugin: false, device: false },
          replies: { 200: z.object({ said: z.string() }) }, ${handler} }) } })`,
    })
    mkdirSync(join(folder, 'node_modules/lib'), { recursive: true })
    const json = { name: 'lib', version: '1.2.3', type: 'module', exports: './index.js' }
    writeFileSync(join(folder, 'node_modules/lib/package.json'), JSON.stringify(json))
    writeFileSync(join(folder, 'node_modules/lib/index.js'), "export const word = 'from lib on '")
    return packFolder(folder, `${folder}.tgz`)
  }
  const said = async () => (await own.inject('GET', '/ext/tiny')).json.said
  try {
    expect(await typed('add', await make('1.0.0'), '--grant')).toMatchObject({ code: 0, err: '' })
    expect(await said()).toBe(`from lib on ${arch()} 1.0.0`)
    expect(await typed('add', await make('2.0.0'))).toMatchObject({ code: 0 })
    expect(await said()).toBe(`from lib on ${arch()} 2.0.0`)
    expect(await typed('remove', 'tiny')).toMatchObject({ code: 0 })
  } finally {
    await own.stop()
  }
}, 60_000)
