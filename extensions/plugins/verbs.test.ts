// The verbs about packages, typed against a running host, and those of authors, which need none.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { packFolder, writePackage } from '../../test/harness/packages.ts'

let shop: string
let host: TestHost
beforeAll(() => {
  shop = mkdtempSync(join(tmpdir(), 'svc-verbs-'))
})
afterAll(() => rmSync(shop, { recursive: true }))
beforeEach(async () => {
  host = await startHost({ extensions: ['plugins', 'logs'] })
})
afterEach(() => host.stop())

const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', ...argv)
const packed = (version: string, setup = '') =>
  packFolder(
    writePackage(mkdtempSync(join(shop, 'p-')), 'tiny', { version, setup }),
    join(shop, `tiny-${version}.tgz`),
  )

test('from a file to nothing: add, info, status, update by a file, pin, rollback, logs, remove', async () => {
  const added = await type('add', await packed('1.0.0', 'ctx.log.info("a tiny word")'), '--trust')
  expect(added).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/svc-plugin-tiny 1\.0\.0 is installed\.\n.*tiny is on\./s),
  })
  expect((await type('info', 'tiny')).out).toMatch(
    /^title: +tiny\npackage: +svc-plugin-tiny\nversion: +1\.0\.0\nstate: +on\nfrom: +cli\nrealm: +kernel/,
  )
  expect((await type('status')).out).toMatch(/svc-plugin-tiny +1\.0\.0 +cli +on/)
  expect(JSON.parse((await type('status', '--json')).out).data.installed).toMatchObject([
    { plugin_id: 'tiny', tier: 'cli' },
  ])
  expect((await type('logs', 'tiny')).out).toMatch(/INFO +a tiny word/)
  expect(await type('add', await packed('2.0.0'))).toMatchObject({ code: 0 })
  expect((await type('pin', 'tiny')).out).toBe('svc-plugin-tiny stays at 2.0.0.\n')
  // All that are not pinned: there is none, and no registry is asked.
  expect(JSON.parse((await type('update', '--json')).out)).toMatchObject({ data: { jobs: [] } })
  expect((await type('rollback', 'tiny')).out).toContain('svc-plugin-tiny is 1.0.0 again.')
  expect(await type('restart', 'tiny')).toMatchObject({ code: 0, out: 'tiny is on.\n' })
  expect(await type('remove', 'tiny')).toMatchObject({ code: 0, out: 'svc-plugin-tiny is removed.\n' })
  expect((await type('status')).out).toBe('nothing is installed\n')
})

test('what is refused is a sentence on standard error and an exit code', async () => {
  expect(await type('add', 'svc-plugin-tiny')).toMatchObject({
    code: 2,
    err: expect.stringContaining('--allow-public-registry'),
  })
  expect(await type('add', '@acme/plugin-tiny@^1.0.0')).toMatchObject({
    code: 2,
    err: expect.stringContaining('@svc'),
  })
  expect(await type('add', join(shop, 'nowhere.tgz'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('cannot be read'),
  })
  expect(await type('add', await packed('1.0.0'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('--trust'),
  })
  expect(await type('remove', 'nobody')).toMatchObject({
    code: 2,
    err: expect.stringContaining('nothing is'),
  })
  expect(await type('info', 'nobody')).toMatchObject({ code: 2 })
  const broken = await type('add', await packed('1.0.1', 'throw new Error("no bulb")'), '--trust', '--json')
  expect(broken.code).toBe(1)
  expect(JSON.parse(broken.out).data.extensions).toMatchObject([
    { id: 'tiny', state: 'failed', why: 'setup failed: no bulb' },
  ])
})

test('verify says all that would be refused, at once; pack makes one file that can be added', async () => {
  const bad = writePackage(mkdtempSync(join(shop, 'b-')), 'tiny', {
    main: 'import "leftpad"\nimport "./other.js"\nexport default 1',
    packageJson: { dependencies: { leftpad: '1' }, scripts: { postinstall: 'true' } },
  })
  const said = await type('verify', bad)
  expect(said.code).toBe(1)
  expect(said.out.match(/^refused: /gm)).toHaveLength(3)
  expect(said.out).toMatch(/^remark: its scripts \(postinstall\) are never run/m)
  expect(await type('pack', bad, '--into', shop)).toMatchObject({ code: 1 })

  const good = writePackage(mkdtempSync(join(shop, 'g-')), 'tiny')
  expect(await type('verify', good)).toMatchObject({
    code: 0,
    out: 'svc-plugin-tiny 1.0.0 can be installed.\n',
  })
  const { file, integrity } = JSON.parse((await type('pack', good, '--into', shop, '--json')).out).data
  expect(file).toBe(join(shop, 'svc-plugin-tiny-1.0.0.tgz'))
  await type('add', file, '--trust')
  expect(JSON.parse((await type('info', 'tiny', '--json')).out).data.installed.integrity).toBe(integrity)
})

test('a folder is packed by npm’s own rules and added', async () => {
  const folder = writePackage(mkdtempSync(join(shop, 'f-')), 'tiny', {
    packageJson: {
      files: ['index.js', 'extension.json'],
      scripts: { prepare: 'touch ran', prepack: 'touch ran' },
    },
    files: { secret: 'not in the package' },
  })
  expect(await type('add', folder, '--trust')).toMatchObject({ code: 0 })
  expect(existsSync(join(host.configDir, 'plugins/.versions/tiny/1.0.0/secret'))).toBe(false)
  expect(existsSync(join(folder, 'ran'))).toBe(false)
})

test('a new plugin passes its own test as it stands', async () => {
  const before = process.cwd()
  const folder = join(shop, 'my-light')
  process.chdir(shop)
  try {
    expect(await type('new', 'my-light', '--js')).toMatchObject({
      code: 0,
      out: expect.stringContaining('npm test'),
    })
    expect(await type('new', 'my-light')).toMatchObject({
      code: 2,
      err: expect.stringContaining('there already'),
    })
    expect(await type('new', 'My_Light')).toMatchObject({ code: 2 })
    expect(await type('new', 'both', '--js', '--ts')).toMatchObject({ code: 2 })
    expect(await type('new', 'free', '--license', 'a b')).toMatchObject({ code: 2 })
    expect((await type('new', 'free', '--license', 'GPL-3.0-or-later')).out).toContain('LICENSE is yours')
    expect(JSON.parse(readFileSync('free/package.json', 'utf8')).license).toBe('GPL-3.0-or-later')
    expect([existsSync('free/LICENSE'), existsSync('my-light/LICENSE')]).toEqual([false, true])
    expect(JSON.parse((await type('new', 'my-lamp', '--scope', '@acme', '--json')).out).data.files).toContain(
      'index.ts',
    )
  } finally {
    process.chdir(before)
  }
  expect(JSON.parse(readFileSync(join(shop, 'my-lamp/package.json'), 'utf8')).name).toBe(
    '@acme/plugin-my-lamp',
  )
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(before, join(folder, 'node_modules/svc-host'))
  const tested = await type('test', folder)
  expect(tested, tested.out).toMatchObject({ code: 0, out: expect.stringContaining('pass 1') })
  writeFileSync(join(folder, 'index.test.js'), 'throw new Error("broken")')
  expect(await type('test', folder)).toMatchObject({ code: 1 })
  rmSync(join(folder, 'index.test.js'))
  expect(await type('test', folder)).toMatchObject({ code: 2, err: expect.stringContaining('*.test.js') })
})
