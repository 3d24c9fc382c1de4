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

const packed = new Map<string, Promise<string>>()
/** A packed package, made once for all tests of this file. */
const pack = (id: string, options: PackageOptions = {}): Promise<string> => {
  const key = JSON.stringify([id, options])
  const made = packed.get(key) ?? packFolder(writePackage(mkdtempSync(join(shop, 'p-')), id, options), shop)
  packed.set(key, made)
  return made.then(file => {
    const copy = join(mkdtempSync(join(shop, 'c-')), 'package.tgz')
    writeFileSync(copy, readFileSync(file))
    return copy
  })
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
