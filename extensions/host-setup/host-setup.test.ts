// `svc-host setup` on a machine where nothing is missing, and where builds of the engine are looked for.
import { execFile } from 'node:child_process'
import {
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import about from 'svc-host/package.json' with { type: 'json' }
import { afterEach, beforeEach, expect, test } from 'vitest'

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}
const flags = ['--conditions=svc-source', '--disable-warning=ExperimentalWarning']
const runNode = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  new Promise(done => {
    execFile(process.execPath, [...flags, ...args], { env: { ...process.env, ...env } }, (error, out, err) =>
      done({ code: error ? Number(error.code) : 0, out, err }),
    )
  })
const svcHost = (...args: string[]) => runNode(['kernel/main.ts', ...args])

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'svc-setup-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

test('where nothing is missing it says so, and it is a command with help of its own', async () => {
  expect(await svcHost('setup')).toMatchObject({ code: 0 })
  expect(await svcHost('setup')).toEqual({
    code: 0,
    out: expect.stringContaining('"svc-host serve" starts the host'),
    err: '',
  })
  expect(await svcHost('setup', '--help')).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^Usage: svc-host setup/),
  })
  expect(await svcHost('setup', 'everything')).toMatchObject({ code: 2, out: '' })
  // Time for a build: the first call makes one where the sources have changed since the last.
}, 300_000)

test('the engine of a package that cannot be written to lies in the user’s cache, unless somebody else filled that', async () => {
  cpSync('native', join(root, 'native'), { recursive: true, filter: from => !from.endsWith('native/build') })
  cpSync('package.json', join(root, 'package.json'))
  symlinkSync(join(process.cwd(), 'node_modules'), join(root, 'node_modules'))
  // A file in the folder's place: root, too, is kept from writing there.
  writeFileSync(join(root, 'native/build'), '')
  const cache = join(root, 'cache/svc-host', about.version)
  const env = { XDG_CACHE_HOME: join(root, 'cache') }
  const load = () =>
    runNode(['-e', `import('${root}/native/addon.ts').then(m => console.log(m.addon.abi))`], env)
  expect(await load()).toMatchObject({ code: 1, err: expect.stringContaining('run "svc-host setup"') })

  const { key } = JSON.parse(readFileSync('native/build/engine.json', 'utf8'))
  mkdirSync(cache, { recursive: true })
  cpSync(join('native/build', key), join(cache, key), { recursive: true })
  cpSync('native/build/engine.json', join(cache, 'engine.json'))
  expect(await runNode([join(root, 'native/build.mjs')], env)).toEqual({ code: 0, out: '', err: '' })
  expect(await load()).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\n$/) })

  if (process.getuid?.() !== 0) return
  chownSync(cache, 65534, 65534)
  expect(await load()).toMatchObject({ code: 1, err: expect.stringContaining('is not built') })
})
