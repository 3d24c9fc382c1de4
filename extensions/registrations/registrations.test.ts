// Plugin records: who may write what, leases, what is shown, and lines that reach the log.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Caller, defineExtension, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createRegistry } from './registry.ts'
import { PluginId, Registration } from './schema.ts'
import { tokenIn, tokensIn } from './tokens.ts'

const tokens = { lamp: 'a'.repeat(64), light: 'b'.repeat(64), runner: 'c'.repeat(64) }
let host: TestHost
beforeEach(async () => {
  host = await startHost({ extensions: ['registrations', 'logs'] })
  mkdirSync(join(host.configDir, 'plugin-run'))
  const own = { lamp: tokens.lamp, light: tokens.light }
  writeFileSync(join(host.configDir, 'plugin-run/plugin-tokens.json'), JSON.stringify(own))
  writeFileSync(join(host.configDir, 'plugin-token'), `# the runner\nSVC_PLUGIN_TOKEN=${tokens.runner}\n`)
})
afterEach(() => host.stop())

const ui = { port: 4000, secret: 's'.repeat(20), icon: 'bulb' }
const put = (id: string, body: unknown, token?: string) =>
  host.inject('PUT', `/plugins/${id}`, { body, ...(token !== undefined && { token }) })
const changes = () => host.events().flatMap(e => (e.kind === 'plugins.changed' ? [e['id']] : []))

test('a plugin writes its own record and no other; the runner and the operator write any', async () => {
  expect((await put('lamp', { title: 'Lamp', ui }, tokens.lamp)).status).toBe(204)
  expect(await put('light', { title: 'Light' }, tokens.lamp)).toMatchObject({
    status: 403,
    json: { error: 'this token may only write its own id' },
  })
  expect((await put('light', { title: 'Alight' }, tokens.runner)).status).toBe(204)
  expect((await put('third', { title: 'Alight' })).status).toBe(204)
  expect((await put('lamp', { title: 'Lamp' }, 'd'.repeat(64))).status).toBe(401)
  expect(await host.inject('GET', '/plugins', { token: tokens.light })).toMatchObject({
    status: 403,
    json: { error: 'light has not been granted api:plugins' },
  })
  const list = await host.inject('GET', '/plugins', { token: tokens.runner })
  expect(list.json).toEqual([
    { id: 'light', title: 'Alight' },
    { id: 'third', title: 'Alight' },
    { id: 'lamp', title: 'Lamp', ui: { port: 4000, icon: 'bulb' } },
  ])
  expect((await host.inject('GET', '/plugins/lamp/ui-credential')).json).toEqual({
    port: 4000,
    secret: ui.secret,
  })
  expect((await host.inject('GET', '/plugins/lamp/ui-credential', { token: tokens.lamp })).status).toBe(403)
  expect((await host.inject('GET', '/plugins/light/ui-credential')).status).toBe(404)
  expect((await host.inject('GET', '/logs', { token: tokens.runner })).status).toBe(403)
  expect((await host.inject('DELETE', '/plugins/light', { token: tokens.lamp })).status).toBe(403)
  for (const _ of [1, 2])
    expect((await host.inject('DELETE', '/plugins/lamp', { token: tokens.lamp })).status).toBe(204)
  expect(changes()).toEqual(['lamp', 'light', 'third', 'lamp'])
})

test('whoever serves rows by provider or id gets the same: own rows only, and whole lists by what was granted', async () => {
  const lanes = { plugin: 'own', device: false } as const
  const answer = { replies: { 200: z.object({ by: z.string() }) } }
  const said = ({ caller }: { caller: Caller }) => ({
    by: `${caller.lane === 'plugin' ? caller.id : caller.lane}`,
  })
  const shelf: InlineExtension = {
    manifest: { id: 'shelf' },
    extension: defineExtension({
      setup: ctx =>
        ctx.route(
          ...(['provider', 'id'] as const).map(key =>
            route({
              ...answer,
              method: 'PUT',
              path: `/shelf/${key}/{${key}}`,
              id: `put-${key}`,
              tag: 'shelf',
              summary: 'Rows of one provider',
              lanes,
              params: z.object({ [key]: z.string() }),
              handler: said,
            }),
          ),
          route({
            ...answer,
            method: 'GET',
            path: '/shelf',
            id: 'getShelf',
            tag: 'shelf',
            summary: 'All rows',
            lanes: { plugin: 'all', device: false },
            handler: said,
          }),
        ),
    }),
  }
  const both = await startHost({ extensions: ['registrations', shelf] })
  try {
    mkdirSync(join(both.configDir, 'plugin-run'))
    const units = {
      lamp: { token: tokens.lamp, permissions: ['api:shelf'] },
      light: { token: tokens.light, permissions: ['api:host'] },
    }
    writeFileSync(join(both.configDir, 'plugin-run/unit-tokens.json'), JSON.stringify(units))
    writeFileSync(join(both.configDir, 'plugin-token'), tokens.runner)
    const call = async (method: string, path: string, token?: string) => {
      const { status, json } = await both.inject(method, path, token === undefined ? {} : { token })
      return `${status} ${json.by ?? json.error}`
    }
    for (const key of ['provider', 'id']) {
      expect(await call('PUT', `/shelf/${key}/lamp`, tokens.lamp)).toBe('200 lamp')
      // No other spelling of the path is somebody's own either.
      for (const foreign of ['light', 'LAMP', 'lamp%20', 'lamp%2flight', 'light%2f..%2flamp', '%6cight'])
        expect(await call('PUT', `/shelf/${key}/${foreign}`, tokens.lamp), foreign).toBe(
          '403 this token may only write its own id',
        )
      expect(await call('PUT', `/shelf/${key}/%6camp`, tokens.lamp)).toBe('200 lamp')
      expect(await call('PUT', `/shelf/${key}/light`, tokens.runner)).toBe('200 null')
      expect(await call('PUT', `/shelf/${key}/light`)).toBe('200 admin')
    }
    expect(await call('GET', '/shelf', tokens.lamp)).toBe('200 lamp')
    expect(await call('GET', '/shelf', tokens.light)).toMatch(/^403 light has not been granted api:shelf/)
  } finally {
    await both.stop()
  }
})

test('a token ends with its entry, at once', async () => {
  expect((await put('lamp', { title: 'Lamp' }, tokens.lamp)).status).toBe(204)
  writeFileSync(join(host.configDir, 'plugin-run/plugin-tokens.json'), '{}')
  expect((await put('lamp', { title: 'Lamp' }, tokens.lamp)).status).toBe(401)
  writeFileSync(join(host.configDir, 'plugin-run/plugin-tokens.json'), '{broken')
  expect((await put('lamp', { title: 'Lamp' }, tokens.lamp)).status).toBe(401)
})

test.each([
  ['no title', {}],
  ['a title of nothing', { title: ' \u202e\u0007 ' }],
  ['a long title', { title: 'x'.repeat(65) }],
  ['a port of the system', { title: 'x', ui: { ...ui, port: 80 } }],
  ['a short secret', { title: 'x', ui: { ...ui, secret: 'short' } }],
  ['a category in capitals', { title: 'x', category: 'Light' }],
  ['an icon that is a path', { title: 'x', ui: { ...ui, icon: '../x' } }],
])('a registration with %s is refused', async (_name, body) => {
  expect((await put('lamp', body)).status).toBe(400)
  expect((await host.inject('GET', '/plugins')).json).toEqual([])
})

test('an id that no plugin can have is refused', async () => {
  for (const id of ['Lamp', '9', 'a_b', 'x'.repeat(65)])
    expect((await put(id, { title: 'x' })).status).toBe(400)
})

test('a lease of 90 s is renewed in silence, a change is told, and an end is found at the next look', () => {
  let nowMs = 0
  const changed: string[] = []
  const registry = createRegistry({ nowMs: () => nowMs, onChange: id => void changed.push(id) })
  registry.put('lamp', { title: 'Lamp', ui })
  nowMs = 89_999
  registry.put('lamp', { title: 'Lamp', ui })
  expect(changed).toEqual(['lamp'])
  registry.put('lamp', { title: 'Lamp', ui: { ...ui, secret: 't'.repeat(20) } })
  expect(changed).toHaveLength(2)
  nowMs += 90_000
  expect(registry.credential('lamp')).toBeUndefined()
  expect(registry.list()).toEqual([])
  expect(changed).toHaveLength(3)
  registry.put('lamp', { title: 'Lamp' })
  nowMs += 90_000
  registry.remove('lamp')
  expect(changed).toHaveLength(4)
})

test('lines of the runner are lines of the log, with the source and the time that they came with', async () => {
  const line = { ts_ms: 1_700_000_000_000, level: 'warn', source: 'lamp', msg: 'flickers' }
  const send = (entries: object[], token = tokens.runner) =>
    host.inject('POST', '/plugins/logs', { body: { entries }, token })
  expect((await send([line, { ...line, level: 'odd', source: ' ', msg: 'hm' }])).status).toBe(204)
  const { entries } = (await host.inject('GET', '/logs')).json
  const of = (target: string) => entries.filter((each: { target: string }) => each.target === target)
  expect(of('plugin:lamp')).toMatchObject([{ level: 'WARN', msg: 'flickers', ts_ms: 1_700_000_000_000 }])
  expect(of('plugin:runner')).toMatchObject([{ level: 'INFO', msg: 'hm' }])
  expect((await send(Array(257).fill(line))).status).toBe(400)
})

test('any JSON is a registration or refused, any text a file of tokens or none', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string(), (json, text) => {
      const { data } = Registration.safeParse(json)
      if (data) expect(data.title.length).toBeGreaterThan(0)
      expect(typeof PluginId.safeParse(text).success).toBe('boolean')
      for (const token of Object.values(tokensIn(text))) expect(token.length).toBeGreaterThanOrEqual(16)
      expect(tokenIn(text)).not.toBe('')
    }),
  )
})
