// Permissions that take their host or folder from config: what they stand for, and that nothing else comes out of it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { covers, explainPermission, parsePermission } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { expect, test } from 'vitest'
import { fromConfig } from '../../kernel/configured.ts'
import { createGuests } from '../harness/guests.ts'

test.each([
  ['network:{config.url}', { url: 'https://hooks.example.com/x?y' }, ['network:hooks.example.com:443']],
  ['network:{config.url}', { url: 'http://2130706433:81/' }, ['network:127.0.0.1:81']],
  ['network:{config.a.b}', { a: { b: 'nas.home:8080' } }, ['network:nas.home:8080']],
  [
    'network:{config.a}',
    { a: ['x.example', 7, 'https://[::1]/', '*.y.example'] },
    ['network:x.example', 'network:[::1]:443', 'network:*.y.example'],
  ],
  ['read:{config.folder}', { folder: '~/Games' }, ['read:~/Games']],
  ['write:{config.folder}', { folder: '/a/../b' }, []],
  ['network:{config.url}', { url: '{config.url}' }, []],
  ['network:{config.url}', { url: 'file:///etc' }, []],
  ['network:{config.toString}', {}, []],
  ['network:{config.url}', undefined, []],
  ['exec:/bin/echo {config.url}', { url: 'x' }, []],
  ['network:plain.example', { url: 'x' }, []],
])('%s with %j', (text, config, wanted) => expect(fromConfig(text, config)).toEqual(wanted))

test('is a permission, says what it allows, and covers itself alone', () => {
  const text = 'network:{config.url}'
  expect(explainPermission(text)).toBe('reach what its config names as "url" over the network')
  expect([covers(text, text), covers(text, 'network:a.b:443'), covers('network:*.b', text)]).toEqual([
    true,
    false,
    false,
  ])
  for (const wrong of [
    'events:{config.a}',
    'exec:{config.a}',
    'network:{config}',
    'network:{config.a}:80',
    'read:{config.}',
  ])
    expect(() => parsePermission(wrong), wrong).toThrow('comes')
})

test('property: whatever a config holds, what comes out is a permission of the same kind', () => {
  const value = fc.oneof(
    fc.anything(),
    fc.webUrl(),
    fc.string(),
    fc.array(fc.oneof(fc.string(), fc.webUrl())),
  )
  fc.assert(
    fc.property(fc.constantFrom('network', 'read', 'write'), value, (kind, a) => {
      for (const text of fromConfig(`${kind}:{config.a}`, { a }))
        expect(parsePermission(text).kind).toBe(kind)
    }),
  )
})

test('an author’s default opens nothing; what the operator sets does', async () => {
  const guests = createGuests()
  const configDir = await mkdtemp(join(tmpdir(), 'svc-configured-'))
  const file = join(configDir, 'note')
  await writeFile(file, 'read')
  const granted = join(tmpdir(), `svc-configured-${process.pid}`)
  await writeFile(granted, 'read')
  const folder = await guests.write(
    'reader',
    `export default defineExtension({
      config: z.object({ file: z.string().default(${JSON.stringify(granted)}) }),
      async setup(ctx) { ctx.log.info(await ctx.files.readText(ctx.config.file).catch(e => e.stack)) },
    })`,
    { permissions: ['read:{config.file}'] },
  )
  const host = await startHost({ extensions: [folder], configDir })
  try {
    const said = () => host.logs.filter(l => l.extension === 'reader').map(({ msg }) => msg)
    const place = `read:{config.file}, but the operator has not set file to what leads to read:${granted}`
    const remedy = '(a default does not count); run svc-host plugins config set reader file=…'
    expect(said()[0]).toContain(`PermissionError: reader asks for ${place} ${remedy}`)
    // The author's line, and none of the host's.
    expect(said()[0]!.split('\n').slice(1)).toEqual([expect.stringMatching(/[ (]\.\/index\.js:\d+:\d+\)?$/)])
    await host.extensions.configure('reader', () => ({ file: granted }))
    await expect.poll(said).toContain('read')
    expect(said()).toContain('on again: its config has changed')
    await host.extensions.configure('reader', () => ({ file }))
    await expect.poll(() => said().join()).toContain('lies among the settings of the host')
  } finally {
    await host.stop()
    await guests.remove()
    await rm(configDir, { recursive: true })
    await rm(granted)
  }
})
