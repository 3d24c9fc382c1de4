// Looking at the folders again while the host runs: what is new starts, what has gone leaves, what was changed is refused.
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defineExtension, token } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'

const Lamp = token<{ version: string }>('test.lamp', '1.0.0')
let host: TestHost
beforeEach(async () => {
  const reader = {
    manifest: { id: 'reader', requires: { 'test.lamp': '^1.0.0' } },
    extension: defineExtension({
      deps: { lamp: Lamp },
      setup: (ctx, { lamp }) => ctx.log.info(`reads by lamp ${lamp.version}`),
    }),
  }
  host = await startHost({ extensions: [reader] })
  await host.extensions.trust('lamp', true)
})
afterEach(() => host.stop())

const folderOf = (version: string): string => join(host.configDir, 'plugins', '.versions', 'lamp', version)
const unpack = async (version: string, setup: string): Promise<void> => {
  const manifest = { id: 'lamp', version, sdk: '^1.0.0', title: 'Lamp', realm: 'kernel', main: 'index.js' }
  await mkdir(folderOf(version), { recursive: true })
  const provides = { 'test.lamp': '1.0.0' }
  await writeFile(join(folderOf(version), 'extension.json'), JSON.stringify({ ...manifest, provides }))
  await writeFile(
    join(folderOf(version), 'index.js'),
    `export default { async setup(ctx) {
       ctx.provide({ id: 'test.lamp', version: '1.0.0' }, { version: '${version}' }); ${setup} } }`,
  )
}
const install = async (version?: string, seal?: string) => {
  const ledger = version ? { dependencies: { 'svc-plugin-lamp': version } } : {}
  const seals = seal && version ? { seals: { 'svc-plugin-lamp': { [version]: seal } } } : {}
  await writeFile(join(host.configDir, 'plugins', 'package.json'), JSON.stringify({ ...ledger, ...seals }))
  const records = await host.extensions.reload()
  return Object.fromEntries(records.map(({ id, state, version: v, why }) => [id, [state, v, why]]))
}
const reads = () => host.logs.flatMap(({ msg }) => (msg.startsWith('reads by') ? [msg] : []))

test('an extension comes, is replaced and goes while the host runs, and its dependants follow', async () => {
  await unpack('1.0.0', '')
  expect(await install('1.0.0')).toMatchObject({ lamp: ['on', '1.0.0', null], reader: ['on', '1.0.0', null] })
  await unpack('2.0.0', '')
  expect(await install('2.0.0')).toMatchObject({ lamp: ['on', '2.0.0', null], reader: ['on', '1.0.0', null] })
  expect(reads()).toEqual(['reads by lamp 1.0.0', 'reads by lamp 2.0.0'])
  const gone = await install()
  expect(gone['lamp']).toBeUndefined()
  expect(gone['reader']![0]).toBe('waiting')
  const states = host.events().flatMap(e => (e['id'] === 'lamp' ? [e['state']] : []))
  expect(states.at(-1)).toBe('off')
  await host.extensions.forget('lamp')
  expect(existsSync(join(host.configDir, 'extensions.json'))).toBe(true)
})

test('looking again in vain restarts nobody', async () => {
  await unpack('1.0.0', '')
  await install('1.0.0')
  await Promise.all([host.extensions.reload(), host.extensions.reload(), install('1.0.0')])
  expect(reads()).toHaveLength(1)
})

test('a folder that is not what was sealed does not start, and what lies there instead is not run', async () => {
  await unpack('1.0.0', '')
  const { seal, problem, manifest } = await host.extensions.examine(folderOf('1.0.0'))
  expect([problem, manifest]).toMatchObject([null, { id: 'lamp', version: '1.0.0', realm: 'kernel' }])
  expect((await install('1.0.0', seal))['lamp']![0]).toBe('on')
  await host.extensions.enable('lamp', false)
  await unpack('1.0.0', 'throw new Error("was run")')
  const { state, why } = await host.extensions.enable('lamp', true)
  expect([state, why]).toEqual([
    'failed',
    expect.stringContaining('its files are not those that were installed'),
  ])

  // With a seal of its own the same folder is other code, not what the process has loaded before.
  const other = await host.extensions.examine(folderOf('1.0.0'))
  expect((await install('1.0.0', other.seal))['lamp']).toEqual(['failed', '1.0.0', 'setup failed: was run'])
})

test('the files that a stranger keeps lie in the folder that goes with it', async () => {
  await unpack(
    '1.0.0',
    `const file = await ctx.document('note.json', (await import('zod')).z.object({}).loose())
    await file.write({ kept: true })`,
  )
  expect((await install('1.0.0'))['lamp']![0]).toBe('on')
  expect(existsSync(join(host.configDir, 'plugin-state', 'lamp', 'note.json'))).toBe(true)
})
