// One of two providers at a time: the operator chooses, those who use the service have the other one at once, and back.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PluginCatalog } from 'svc-host/api/catalog'
import { startHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type } from '../../test/harness/command-line.ts'
import { packFolder, writePackage } from '../../test/harness/packages.ts'

let shop: string
beforeAll(() => {
  shop = mkdtempSync(join(tmpdir(), 'svc-vetted-'))
})
afterAll(() => rmSync(shop, { recursive: true }))

test('switched in, switched out, and never both', async () => {
  const vetted = {
    id: 'tiny',
    pkg: 'svc-plugin-tiny',
    version: '1.0.0',
    integrity: `sha512-${'a'.repeat(86)}==`,
  }
  const config = { 'replaces-a-builtin': { vetted: [vetted] } }
  const host = await startHost(['plugins', 'catalog', import.meta.dirname], { config, mayBeOff: true })
  const of = (id: string) => host.extensions.list().find(each => each.id === id)!
  const packed = async (version: string) =>
    packFolder(writePackage(shop, 'tiny', { version }), join(shop, `tiny-${version}.tgz`))
  const add = async (version: string) =>
    type(host.configDir, 'plugins', 'add', await packed(version), '--trust')
  try {
    expect(of('catalog').state).toBe('on')
    expect(of('replaces-a-builtin')).toMatchObject({
      state: 'waiting',
      why: 'provides service plugin.catalog, which catalog provides already; switch one of the two off',
    })
    await host.extensions.enable('catalog', false)
    expect(of('replaces-a-builtin')).toMatchObject({ state: 'on', why: null })
    expect(host.service(PluginCatalog)!.find('vetted', 'tiny')).toMatchObject(vetted)
    expect(host.service(PluginCatalog)!.newest('svc', 'svc-plugin-tiny')).toBeUndefined()
    expect(await add('1.1.0')).toMatchObject({
      code: 1,
      err: expect.stringContaining('not on the list of vetted'),
    })
    expect(await add('1.0.0')).toMatchObject({ code: 0 })

    await host.extensions.enable('catalog', true)
    expect(of('catalog')).toMatchObject({
      state: 'waiting',
      why: expect.stringContaining('which replaces-a-builtin provides already'),
    })
    await host.extensions.enable('replaces-a-builtin', false)
    expect(of('catalog').state).toBe('on')
    expect(await add('1.1.0')).toMatchObject({ code: 0 })
    expect(host.logs.filter(({ level }) => level >= 50)).toEqual([])
  } finally {
    await host.stop()
  }
})
