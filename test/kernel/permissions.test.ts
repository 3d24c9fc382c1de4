// Permissions of installed extensions: asked, decided, checked at each call, taken back at once; and their grammar.
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  beyond,
  covers,
  defineExtension,
  event,
  hook,
  PluginTokens,
  parsePermission,
  reply,
  route,
  token,
} from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
let configDir: string
let host: TestHost
beforeEach(async () => {
  configDir = await mkdtemp(join(tmpdir(), 'svc-permissions-'))
})
afterEach(async () => {
  await host.stop()
  await rm(configDir, { recursive: true })
})
afterAll(() => guests.remove())

const Moved = event('piece.moved', z.object({ to: z.string() }))
const Judge = hook.waterfall<number>('move.judge', { onFailure: 'skip' })
interface Board {
  place(piece: string): Promise<string>
}
const Board = token<Board>('board.squares', '1.0.0', { place: { args: [z.string()], returns: z.string() } })
const things = {
  method: 'GET',
  tag: 'things',
  summary: 't',
  lanes: { plugin: 'all', device: false },
} as const
const note = {
  params: z.object({ id: z.string() }),
  replies: { 204: null },
  handler: () => reply(204),
} as const

let judge: (input: number) => Promise<number>
const [begun, placed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
let fromKernel: () => Promise<unknown>
const table: InlineExtension = {
  manifest: { id: 'table', provides: { 'board.squares': '1.0.0', 'plugin.tokens': '1.1.0' } },
  extension: defineExtension({
    setup(ctx) {
      judge = ctx.hookPoint(Judge)
      const tokens = {
        guests: { id: 'guest' },
        scripts: { id: 'script', permissions: ['api:things'] },
        names: { id: 'table' },
      }
      ctx.provide(PluginTokens, { resolve: async bearer => tokens[bearer as keyof typeof tokens] })
      ctx.provide(Board, {
        async place(piece) {
          if (piece === 'slow') begun.resolve()
          if (piece === 'slow') await placed.promise
          return piece
        },
      })
      const show = { replies: { 200: z.object({ caller: z.unknown() }) } } as const
      ctx.route(
        route({ ...things, path: '/things', ...show, handler: ({ caller }) => ({ caller }) }),
        route({
          ...things,
          path: '/untagged',
          tag: undefined,
          ...show,
          handler: ({ caller }) => ({ caller }),
        }),
        route({
          ...things,
          path: '/tell/{id}',
          method: 'PUT',
          ...note,
          lanes: { plugin: 'own', device: false },
        }),
        route({
          ...things,
          path: '/rule',
          ...show,
          lanes: { plugin: false, device: false },
          handler: ({ caller }) => ({ caller }),
        }),
        route({
          ...things,
          path: '/near',
          lanes: 'loopback',
          ...show,
          handler: ({ caller }) => ({ caller }),
        }),
      )
      fromKernel = () => ctx.api('GET', '/things')
    },
  }),
}

/** Keeps the host busy as long as `awake` is not resolved. */
let awake = Promise.resolve()
const sleeper: InlineExtension = {
  manifest: { id: 'sleeper' },
  extension: defineExtension({ setup: () => awake }),
}

/** What each attempt of the guest comes to, on request. */
const code = `const Moved = event('piece.moved', z.object({ to: z.string() }))
const Board = token('board.squares', '1.0.0')
const wordOf = error => [error.name, error.permission ?? error.status, error.message].join(' | ')
export default defineExtension({
  async setup(ctx) {
    const seen = []
    let board
    const attempt = fn => { try { fn() } catch (error) { seen.push(wordOf(error)) } }
    attempt(() => ctx.on(Moved, ({ to }) => seen.push('moved to ' + to)))
    attempt(() => ctx.tap(hook.waterfall('move.judge', { onFailure: 'skip' }), n => n + 1))
    attempt(() => ctx.using(Board, service => { board = service }))
    const asks = {
      place: piece => board.place(piece),
      api: path => ctx.api('GET', path),
      tell: id => ctx.api('PUT', '/tell/' + id),
    }
    ctx.route(route({ method: 'POST', path: '/ext/guest/ask', summary: 'a', lanes: admin,
      body: z.object({ what: z.string(), about: z.string() }), replies: { 200: z.object({ value: z.json().optional() }) },
      async handler({ body }) {
        try { return { value: await asks[body.what](body.about) } } catch (error) { return { value: wordOf(error) } }
      } }),
      route({ method: 'GET', path: '/ext/guest/seen', summary: 's', lanes: admin, replies: { 200: z.array(z.string()) }, handler: () => seen }))
  },
})`
const permissions = ['events:piece.*', 'hooks:move.judge', 'routes', 'api:things']
const all = [...permissions, 'services:board.squares']

const install = async (version: string, manifest: object): Promise<void> => {
  const folder = await guests.write('guest', code, {
    version,
    optional: { 'board.squares': '^1.0.0' },
    ...manifest,
  })
  await cp(folder, join(configDir, 'plugins', '.versions', 'guest', version), { recursive: true })
  const ledger = JSON.stringify({ dependencies: { 'svc-plugin-guest': version } })
  await writeFile(join(configDir, 'plugins', 'package.json'), ledger)
}
const start = async (): Promise<void> => {
  host = await startHost({ extensions: [table, sleeper], configDir })
}
const guest = () => host.extensions.list().find(({ id }) => id === 'guest')!
const states = () =>
  Object.fromEntries(guest().permissions.map(({ permission, state }) => [permission, state]))
const ask = async (what: string, about: string): Promise<unknown> => {
  const { json } = await host.inject('POST', '/ext/guest/ask', { body: { what, about } })
  return json?.value
}
const seen = async (): Promise<string[]> => (await host.inject('GET', '/ext/guest/seen')).json

test('waits until each is decided, does what is granted, and is refused the rest where it asks', {
  timeout: 60_000,
}, async () => {
  await install('1.0.0', { permissions })
  await start()
  expect(guest()).toMatchObject({ state: 'waiting', restarts: 0, effects: [], cpu_ms: null })
  expect(guest().why).toBe(
    'asks for events:piece.*, hooks:move.judge, routes, api:things and services:board.squares, which nobody has granted; run svc-host plugins grant guest',
  )
  expect(Object.values(states())).toEqual(Array(5).fill('asked'))
  await expect(host.extensions.permit('guest', { granted: ['everything'] })).rejects.toMatchObject({
    status: 400,
  })
  await expect(
    host.extensions.permit('guest', { granted: ['page'], refused: ['page'] }),
  ).rejects.toMatchObject({ status: 400 })
  await expect(host.extensions.permit('table', { granted: ['page'] })).rejects.toMatchObject({ status: 409 })
  await expect(host.extensions.permit('nobody', { granted: ['page'] })).rejects.toMatchObject({ status: 404 })

  // A wider grant covers what is asked; what it covers beyond that is nobody's.
  await host.extensions.permit('guest', { granted: ['events:*', 'routes'], refused: ['hooks:*'] })
  expect(guest().why).toBe(
    'asks for api:things and services:board.squares, which nobody has granted; run svc-host plugins grant guest',
  )
  const on = await host.extensions.permit('guest', { refused: ['api:things', 'services:board.squares'] })
  expect(on).toMatchObject({ state: 'on', why: null })
  expect(states()).toEqual({
    'events:piece.*': 'granted',
    'hooks:move.judge': 'refused',
    routes: 'granted',
    'api:things': 'refused',
    'services:board.squares': 'refused',
  })
  const not = (what: string) =>
    `guest has not been granted ${what}; run svc-host plugins grant guest '${what}'`
  expect(await seen()).toEqual([
    `PermissionError | hooks:move.judge | ${not('hooks:move.judge')}`,
    `PermissionError | services:board.squares | ${not('services:board.squares')}`,
  ])
  expect(await ask('api', '/things')).toBe('HttpError | 403 | guest has not been granted api:things')
  expect(await judge(1)).toBe(1)
  host.emit(Moved, { to: 'e4' })
  await expect.poll(async () => (await seen()).at(-1)).toBe('moved to e4')

  // What was decided is still so after a start, and goes with the extension alone.
  await host.stop()
  await start()
  expect(guest()).toMatchObject({ state: 'on', why: null })
  await host.extensions.forget('guest')
  expect(host.extensions.decided('guest')).toEqual({ granted: [], refused: [] })
  expect(await readFile(join(configDir, 'extensions.json'), 'utf8')).not.toContain('guest')
})

test('calls the API as itself, and what was granted can be taken back while it is on', {
  timeout: 60_000,
}, async () => {
  await install('1.0.0', { permissions })
  await start()
  await host.extensions.permit('guest', { granted: all })
  expect(await ask('api', '/things')).toEqual({
    caller: { lane: 'plugin', address: '127.0.0.1', id: 'guest' },
  })
  expect(await ask('api', '/near')).toEqual({ caller: { lane: 'loopback', address: '127.0.0.1' } })
  expect(await ask('tell', 'guest')).toBeUndefined()
  expect(await ask('tell', 'other')).toBe('HttpError | 403 | this token may only write its own id')
  expect(await ask('api', '/rule')).toBe('HttpError | 403 | not open to plugin tokens')
  expect(await ask('api', '/untagged')).toBe('HttpError | 403 | guest has not been granted api:*')
  expect(await ask('api', '/nothing')).toBe('HttpError | 404 | route not found')
  for (const path of ['/../../things', '/%2e%2e/%2e%2e/x', 'things', '//evil.example/x'])
    expect(await ask('api', path), path).toMatch(/^HttpError \| (400|404) \|/)
  // A token gives no more over the network; one of a plugin that is no extension brings its permissions with it.
  const by = async (token: string, path: string) => (await host.inject('GET', path, { token })).status
  expect([await by('guests', '/things'), await by('guests', '/untagged')]).toEqual([200, 403])
  expect([await by('scripts', '/things'), await by('scripts', '/untagged')]).toEqual([200, 403])
  expect(await by('names', '/things')).toBe(403)
  expect(await fromKernel()).toEqual({ caller: { lane: 'plugin', address: '127.0.0.1', id: 'table' } })
  expect(await ask('place', 'pawn')).toBe('pawn')
  expect(await judge(1)).toBe(2)

  // What is under way is refused like what comes after it.
  const slow = ask('place', 'slow')
  await begun.promise
  const revoked = host.extensions.permit('guest', { refused: ['services:board.squares', 'api:*'] })
  await expect.poll(() => states()['services:board.squares']).toBe('refused')
  placed.resolve()
  expect(await slow).toMatch(/^PermissionError \| services:board\.squares \| guest has not been granted/)
  expect(await revoked).toMatchObject({ state: 'on', why: null })
  expect(await ask('api', '/things')).toBe('HttpError | 403 | guest has not been granted api:things')
  expect(await ask('api', '/near')).toBe('HttpError | 403 | guest has not been granted api:things')
  expect([await by('guests', '/things'), await by('scripts', '/things')]).toEqual([403, 200])
  expect(await seen()).toHaveLength(1)

  // Even while the host is busy with somebody who hangs.
  const waking = Promise.withResolvers<void>()
  await host.extensions.enable('sleeper', false)
  awake = waking.promise
  const started = host.extensions.enable('sleeper', true)
  const unrouted = host.extensions.permit('guest', { refused: ['routes'] })
  const words = 'routes under /ext/guest are no longer granted'
  await expect.poll(async () => (await host.inject('GET', '/ext/guest/seen')).json?.error).toBe(words)
  waking.resolve()
  await Promise.all([started, unrouted])
  expect((await host.inject('GET', '/ext/guest/seen')).status).toBe(404)

  // What an update asks for beyond that is all that it waits for.
  await install('1.1.0', {
    version: '1.1.0',
    permissions: [...permissions, 'events:game.*', 'events:piece.moved'],
  })
  await host.extensions.reload()
  expect(guest()).toMatchObject({ version: '1.1.0', state: 'waiting' })
  expect(guest().why).toBe(
    'asks for events:game.*, which nobody has granted; run svc-host plugins grant guest',
  )
  expect((await host.inject('GET', '/ext/guest/seen')).status).toBe(404)
  await host.extensions.permit('guest', { granted: ['routes'], refused: ['events:game.*'] })
  expect(guest()).toMatchObject({ state: 'on', why: null })
})

test('a manifest that asks for nonsense is refused with what would be right', async () => {
  await install('1.0.0', { permissions: ['network:', 'services:board.squares'] })
  await start()
  expect(guest()).toMatchObject({ state: 'failed', permissions: [] })
  expect(guest().why).toBe(
    'extension.json: permissions.0: permission "network:": after "network:" comes a host, such as api.example.com, ' +
      '*.example.com or 192.168.1.7:8080; permissions.1: services are asked for by "requires" and "optional"',
  )
})

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,3}$/)
const dots = fc.oneof(
  fc.constant('*'),
  fc.array(word, { minLength: 1, maxLength: 3 }).map(parts => parts.join('.')),
  fc.array(word, { minLength: 1, maxLength: 2 }).map(parts => `${parts.join('.')}.*`),
)
const path = fc.array(word, { maxLength: 3 }).map(parts => `/${parts.join('/')}`)
const hostName = fc.tuple(fc.constantFrom('', '*.'), word, word).map(([star, a, b]) => `${star}${a}.${b}`)
const port = fc.constantFrom('', ':80', ':443', ':8080')
const permission = fc.oneof(
  fc.tuple(fc.constantFrom('events:', 'hooks:', 'services:'), dots).map(parts => parts.join('')),
  fc.tuple(fc.constantFrom('read:', 'write:', 'read:~', 'write:~'), path).map(parts => parts.join('')),
  fc.tuple(fc.constant('network:'), hostName, port).map(parts => parts.join('')),
  fc.constantFrom('routes', 'page', 'api:*', 'api:host', 'exec:/bin/true', 'exec:/bin/echo {text}'),
)

test('what covers what is reflexive and transitive, and any text is a permission or refused with a sentence', async () => {
  await start()
  fc.assert(
    fc.property(permission, permission, permission, (a, b, c) => {
      expect(parsePermission(a)).toBeTruthy()
      expect(covers(a, a)).toBe(true)
      if (covers(a, b) && covers(b, c)) expect([a, b, c, covers(a, c)]).toEqual([a, b, c, true])
      expect(beyond([a], [b])).toEqual(covers(a, b) ? [] : [b])
      expect(beyond([a, b, c], [a, b, c])).toEqual([])
    }),
    { numRuns: 2000 },
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map(text => `network:${text}`),
        fc.string().map(text => `read:/${text}`),
      ),
      text => {
        try {
          const { kind, about } = parsePermission(text)
          expect(about ? `${kind}:${about}` : kind).toBe(text)
          expect(covers(text, text)).toBe(true)
        } catch (error) {
          expect((error as Error).message).toMatch(/^permission "/)
        }
      },
    ),
    { numRuns: 2000 },
  )
})
