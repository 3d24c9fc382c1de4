// Configs over the API, on a real host: checked before they are stored, for an extension beside the kernel and one in an isolate.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { defineExtension, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { writePackage } from '../../test/harness/packages.ts'

const Seen = token<{ paint: { colour: string } }>('seen.config', '1.0.0')
const shop: InlineExtension = {
  manifest: {
    id: 'shop',
    provides: { 'seen.config': '1.0.0' },
    settings: { port: { env: 'SVC_SHOP_PORT', type: 'port', help: 'its port' } },
  },
  extension: defineExtension({
    config: z.object({
      port: z.int().default(1),
      paint: z.object({ colour: z.string().default('red'), coats: z.int().default(2) }).prefault({}),
      keys: z.array(z.object({ at: z.string(), key: z.string().meta({ writeOnly: true }) })).default([]),
      isBad: z.boolean().optional(),
    }),
    setup(ctx) {
      if (ctx.config.isBad) throw new Error('no bulb')
      ctx.provide(Seen, ctx.config)
    },
  }),
}
/** With what JSON Schema cannot say. */
const stranger = `
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'
export default defineExtension({
  config: z.object({
    host: z.string().regex(/^[a-z]+$/).default('here'),
    from: z.int().default(1),
    to: z.int().default(9),
    token: z.string().meta({ writeOnly: true }).optional(),
  }).refine(({ from, to }) => from <= to, { path: ['to'], message: 'must not be less than from' }),
  setup(ctx) { ctx.log.info('config ' + JSON.stringify(ctx.config)) },
})`

let parent: string
let configDir: string
let host: TestHost
const pathOf = (id: string): string => `/extensions/${id}/config`
const get = async (id: string) => (await host.inject('GET', pathOf(id))).json
const put = (id: string, values: unknown, more: object = {}) =>
  host.inject('PUT', pathOf(id), { body: { values, ...more } })
const file = (id: string): string => join(configDir, 'extension-config', `${id}.json`)
const stored = (id: string): unknown => JSON.parse(readFileSync(file(id), 'utf8'))

beforeAll(() => {
  parent = mkdtempSync(join(tmpdir(), 'svc-config-'))
  writePackage(parent, 'stranger', { realm: 'isolate', main: stranger })
})
afterAll(() => rmSync(parent, { recursive: true }))

describe('beside the kernel', () => {
  beforeEach(async () => {
    configDir = mkdtempSync(join(tmpdir(), 'svc-config-'))
    host = await startHost({
      extensions: ['plugins', shop],
      configDir,
      config: { shop: { paint: { colour: 'green' }, later: 1 } },
      env: { SVC_SHOP_PORT: '7' },
    })
  })
  afterEach(async () => {
    await host.stop()
    rmSync(configDir, { recursive: true })
  })

  test('what is stored, what goes over it, what holds otherwise, and what nobody reads', async () => {
    expect(await get('shop')).toMatchObject({
      id: 'shop',
      values: { paint: { colour: 'green' }, later: 1 },
      defaults: { port: 1, paint: { colour: 'red', coats: 2 }, keys: [] },
      overrides: [{ path: ['port'], value: 7, source: 'SVC_SHOP_PORT' }],
      unknown: [['later']],
      schema: { type: 'object', properties: { paint: { type: 'object' } } },
      problem: null,
    })
    for (const token of [null, 'wrong']) {
      expect((await host.inject('GET', pathOf('shop'), { token })).status).toBe(401)
      expect((await host.inject('PUT', pathOf('shop'), { token, body: { values: {} } })).status).toBe(401)
    }
    expect((await host.inject('GET', pathOf('nobody'))).status).toBe(404)
  })

  test('a value that does not fit is refused with its path, and nothing has changed', async () => {
    const before = readFileSync(file('shop'), 'utf8')
    const seen = host.service(Seen)
    const deep = (levels: number): unknown => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
    const refused: [values: unknown, status: number, error: RegExp][] = [
      [{ paint: { colour: 1 } }, 422, /^paint\.colour: .*expected string/],
      [{ port: 3 }, 409, /^port is set by SVC_SHOP_PORT/],
      [[], 422, /values: expected an object/],
      [JSON.parse('{"__proto__": {"isBad": true}}'), 422, /^__proto__: no key/],
      [JSON.parse('{"paint": {"colour": "red", "__proto__": {}}}'), 422, /^paint\.__proto__: no key/],
      [deep(33), 422, /levels deep/],
      [deep(3000), 422, /levels deep/],
      [{ later: 'x'.repeat(300_000) }, 422, /characters long/],
      [{ keys: [{ at: 'a', key: '(secret 0123456789abcdef)' }] }, 422, /^keys\.0\.key: .*not stored/],
    ]
    for (const [values, status, error] of refused) {
      const answer = await put('shop', values)
      expect([answer.status, answer.json.error]).toEqual([status, expect.stringMatching(error)])
    }
    expect(readFileSync(file('shop'), 'utf8')).toBe(before)
    expect(host.service(Seen)).toBe(seen)
  })

  test('a config is taken in at once, and the answer says when its extension does not come up with it', async () => {
    const good = await put('shop', { paint: { colour: 'blue' }, later: 1 })
    expect(good).toMatchObject({ status: 200, json: { extension: { state: 'on' } } })
    expect(host.service(Seen)).toMatchObject({ paint: { colour: 'blue', coats: 2 }, port: 7 })
    const bad = await put('shop', { isBad: true })
    expect(bad.json.extension).toMatchObject({ state: 'failed', why: 'setup failed: no bulb' })
    // What has failed takes the next one in as well.
    expect((await put('shop', {})).json.extension.state).toBe('on')
    // And what is off stays off, checked all the same.
    await host.extensions.enable('shop', false)
    expect((await put('shop', { paint: 1 })).status).toBe(422)
    expect((await put('shop', { isBad: true })).json.extension.state).toBe('off')
  })

  test('of two that change what they have both read, one is told', async () => {
    const { revision } = await get('shop')
    const answers = await Promise.all([
      put('shop', { a: 1 }, { revision }),
      put('shop', { b: 1 }, { revision }),
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412])
    expect(Object.keys(stored('shop') as object)).toHaveLength(1)
  })

  test('a secret is never shown, and stays with what it belongs to', async () => {
    await put('shop', {
      keys: [
        { at: 'a', key: 'alpha' },
        { at: 'b', key: 'beta' },
      ],
    })
    const shown = await get('shop')
    expect(JSON.stringify(shown)).not.toMatch(/alpha|beta/)
    const [a, b] = shown.values.keys
    await put('shop', { keys: [b, { ...a, at: 'c' }], paint: { colour: a.key } })
    expect(stored('shop')).toEqual({
      keys: [
        { at: 'b', key: 'beta' },
        { at: 'c', key: 'alpha' },
      ],
      // Only where a secret belongs does its mark stand for it.
      paint: { colour: a.key },
    })
    expect(host.logs.map(line => JSON.stringify(line)).join()).not.toMatch(/alpha|beta/)
  })

  test('a file that is not JSON is said, and kept aside when a config is stored', async () => {
    writeFileSync(file('shop'), '{"paint": ')
    expect(await get('shop')).toMatchObject({ values: {}, problem: expect.stringContaining('shop.json') })
    expect((await put('shop', {})).status).toBe(200)
    expect(stored('shop')).toEqual({})
  })

  test('whatever nobody reads comes back as it was stored', async () => {
    const key = fc.string({ unit: 'binary', maxLength: 8 }).filter(name => name !== '__proto__')
    const value = fc.jsonValue({ maxDepth: 4 }).filter(json => !JSON.stringify(json).includes('__proto__'))
    await host.extensions.enable('shop', false)
    await fc.assert(
      fc.asyncProperty(fc.dictionary(key, value, { maxKeys: 6 }), async more => {
        const values = JSON.parse(JSON.stringify({ ...more, paint: { ...more, colour: 'red', coats: 1 } }))
        for (const name of ['port', 'keys', 'isBad']) delete values[name]
        const first = await put('shop', values)
        expect(first.status, first.text).toBe(200)
        expect((await get('shop')).values).toEqual(values)
        expect((await put('shop', first.json.config.values)).status).toBe(200)
        expect(stored('shop')).toEqual(values)
      }),
      { numRuns: 15 },
    )
  })
})

test('in an isolate, its own schema is asked, also while it is off', async () => {
  configDir = mkdtempSync(join(tmpdir(), 'svc-config-'))
  host = await startHost({ extensions: ['plugins', join(parent, 'stranger-1.0.0')], configDir })
  try {
    const shown = await get('stranger')
    expect(shown).toMatchObject({
      defaults: { host: 'here', from: 1, to: 9 },
      schema: { properties: { host: { pattern: '^[a-z]+$' } } },
      problem: null,
    })
    for (const isOn of [true, false]) {
      await host.extensions.enable('stranger', isOn)
      const refused: [object, RegExp][] = [
        [{ host: 'No' }, /^host: /],
        [{ from: 5, to: 3 }, /^to: must not be less than from/],
        [{ from: 'x' }, /^from: /],
      ]
      for (const [values, error] of refused)
        expect(await put('stranger', values)).toMatchObject({
          status: 422,
          json: { error: expect.stringMatching(error) },
        })
      expect((await put('stranger', { host: 'there', token: 'hush', more: 1 })).status).toBe(200)
    }
    const after = await get('stranger')
    expect(after.unknown).toEqual([['more']])
    expect(JSON.stringify(after)).not.toContain('hush')
    expect((await host.extensions.enable('stranger', true)).state).toBe('on')
    expect(
      host.logs.filter(({ msg }) => msg.includes('"token":"hush","host"') || msg.includes('"host":"there"')),
    ).not.toEqual([])
  } finally {
    await host.stop()
    rmSync(configDir, { recursive: true })
  }
}, 60_000)
