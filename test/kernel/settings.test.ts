// Settings: flag, environment, host.env, file, default, in this order; what is wrong is named where it was written.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { defineExtension, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { UsageError } from '../../kernel/errors.ts'
import { parseHostEnv, parseSetting } from '../../kernel/settings.ts'

const Seen = token<object>('seen.config', '1.0.0')
const shop: InlineExtension = {
  manifest: {
    id: 'shop',
    provides: { 'seen.config': '1.0.0' },
    settings: {
      port: { flag: 'shop-port', env: 'SVC_SHOP_PORT', type: 'port', help: 'its port' },
      isOpen: { flag: 'no-shop', env: 'SVC_SHOP', type: 'boolean', help: 'keep it shut' },
      colour: {
        env: 'SVC_SHOP_COLOUR',
        config: 'paint.colour',
        type: 'string',
        values: ['red', 'blue'],
        help: '',
      },
    },
  },
  extension: defineExtension({
    config: z.object({
      port: z.int().default(1),
      isOpen: z.boolean().default(true),
      paint: z.object({ colour: z.string().default('red'), coats: z.int().default(2) }).prefault({}),
    }),
    setup: ctx => ctx.provide(Seen, ctx.config),
  }),
}

let configDir: string
let host: TestHost | undefined
beforeEach(async () => {
  configDir = await mkdtemp(join(tmpdir(), 'svc-host-settings-'))
})
afterEach(async () => {
  await host?.stop()
  host = undefined
  await rm(configDir, { recursive: true })
})
const start = async (options: Partial<Parameters<typeof startHost>[0]> = {}): Promise<object | undefined> => {
  host = await startHost({ extensions: [shop], configDir, ...options })
  const seen = host.service(Seen)
  await host.stop()
  return seen
}

test('each source gives way to the one before it; siblings in the file stay', async () => {
  expect(await start()).toEqual({ port: 1, isOpen: true, paint: { colour: 'red', coats: 2 } })
  const config = { shop: { port: 2, paint: { colour: 'green', coats: 9 } } }
  expect(await start({ config })).toMatchObject({ port: 2, paint: { colour: 'green' } })
  await writeFile(
    join(configDir, 'host.env'),
    '# shop\n\nSVC_SHOP_PORT = 3\nSVC_SHOP=OFF\nSVC_SHOP_COLOUR=blue\n',
  )
  expect(await start()).toEqual({ port: 3, isOpen: false, paint: { colour: 'blue', coats: 9 } })
  const env = { SVC_SHOP_PORT: '4', SVC_SHOP: 'yes' }
  expect(await start({ env })).toMatchObject({ port: 4, isOpen: true })
  expect(await start({ env, flags: { 'shop-port': '5', 'no-shop': true } })).toMatchObject({
    port: 5,
    isOpen: false,
  })
  expect(Object.isFrozen(await start())).toBe(true)
})

test('a bad flag, variable or host.env line stops the start with the name, the value and what is expected', async () => {
  const bad = (options: Partial<Parameters<typeof startHost>[0]>) =>
    start(options).then(
      () => 'started',
      error => (error instanceof UsageError ? error.message : `no usage error: ${error}`),
    )
  expect(await bad({ flags: { 'shop-port': '65536' } })).toBe(
    '--shop-port is "65536": expected a port from 0 to 65535 (0: any that is free)',
  )
  expect(await bad({ env: { SVC_SHOP: 'maybe' } })).toBe(
    'SVC_SHOP is "maybe": expected 1, on, true, yes or 0, off, false, no',
  )
  expect(await bad({ env: { SVC_SHOP_COLOUR: 'green' } })).toBe(
    'SVC_SHOP_COLOUR is "green": expected one of red, blue',
  )
  expect(await bad({ env: { SVC_LOG: 'loud' } })).toContain('SVC_LOG is "loud": expected one of error')
  await writeFile(join(configDir, 'host.env'), 'SVC_SHOP_PORT=x1\n')
  expect(await bad({})).toContain('SVC_SHOP_PORT in host.env is "x1": expected a port')
  await writeFile(join(configDir, 'host.env'), 'A=b\nnonsense\n')
  expect(await bad({})).toContain('host.env, line 2: expected KEY=value')
})

test('a bad value in the file fails that extension only, with the path; unknown keys are kept and warned about', async () => {
  const other: InlineExtension = {
    manifest: { id: 'other' },
    extension: defineExtension({ setup: () => {} }),
  }
  const path = join(configDir, 'extension-config', 'shop.json')
  host = await startHost({
    extensions: [shop, other],
    configDir,
    config: { shop: { paint: { coats: 'two' } } },
  })
  expect(host.extensions.list().map(({ id, state }) => [id, state])).toEqual([
    ['shop', 'failed'],
    ['other', 'on'],
  ])
  expect(host.extensions.list()[0]!.why).toMatch(/shop\.json\): paint\.coats: .*expected number/)
  await writeFile(path, '{"port": 7, "prot": 8}')
  expect((await host.extensions.enable('shop', true)).state).toBe('on')
  expect(host.logs.find(({ msg }) => msg.includes('keys that nobody reads: prot'))).toMatchObject({
    extension: 'shop',
  })
  await writeFile(path, '{')
  await host.extensions.enable('shop', false)
  expect((await host.extensions.enable('shop', true)).why).toContain('shop.json')
})

test('a config file that changed is taken in when its extension is switched on anew; a mistake in it changes nothing', async () => {
  host = await startHost({ extensions: [shop], configDir, config: { shop: { port: 2 } } })
  const seen = host.service(Seen)
  const path = join(configDir, 'extension-config', 'shop.json')
  await host.extensions.enable('shop', true)
  expect(host.service(Seen)).toBe(seen)

  await writeFile(path, '{"port": "three"}')
  await expect(host.extensions.enable('shop', true)).rejects.toMatchObject({
    status: 409,
    message: expect.stringMatching(/shop\.json\): port: .*; shop goes on with the config it has/),
  })
  expect(host.service(Seen)).toBe(seen)

  await writeFile(path, '{"port": 3}')
  expect((await host.extensions.enable('shop', true)).state).toBe('on')
  expect(host.service(Seen)).toMatchObject({ port: 3 })
})

test('host.env: any text either parses or is refused by line', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => {
      try {
        for (const [key, value] of Object.entries(parseHostEnv(text))) {
          expect(key).toMatch(/^[A-Za-z_]\w*$/)
          expect(value).not.toMatch(/[\r\n]/)
        }
      } catch (error) {
        expect((error as Error).message).toMatch(/^host\.env, line \d+: expected/)
      }
    }),
  )
  const pairs = fc.dictionary(fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/), fc.stringMatching(/^[!-~]{0,12}$/))
  fc.assert(
    fc.property(pairs, values => {
      const text = Object.entries(values).map(([key, value]) => `${key}=${value}\n`)
      expect(parseHostEnv(text.join('# note\n'))).toEqual({ ...values })
    }),
  )
})

test('numbers stay in their bounds, whatever is written', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.integer().map(String)), text => {
      try {
        const value = parseSetting({ type: 'integer', min: -5, max: 500, help: '' }, text) as number
        expect(Number.isInteger(value) && value >= -5 && value <= 500).toBe(true)
      } catch (error) {
        expect((error as Error).message).toBe('expected a whole number, at least -5, at most 500')
      }
    }),
  )
})
