// Hostile packages: each attack is contained, ends at its own door, and leaves the host, its event loop and the neighbours
// as they were.
import { defineExtension, hook, reply, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
const Judge = hook.waterfall<unknown>('stand.judge', { onFailure: 'skip', limitMs: 2000 })
let judge: (input: unknown) => Promise<unknown>
const stand: InlineExtension = {
  manifest: { id: 'stand' },
  extension: defineExtension({
    setup(ctx) {
      judge = ctx.hookPoint(Judge) as typeof judge
      const shape = { method: 'PUT', summary: 's', params: z.object({ id: z.string() }) } as const
      const answer = { replies: { 204: null }, handler: () => reply(204) } as const
      for (const plugin of [false, 'runner', 'own', 'all'] as const)
        ctx.route(
          route({
            ...shape,
            ...answer,
            path: `/stand-${plugin}/{id}`,
            tag: 'x',
            lanes: { plugin, device: false },
          }),
        )
      ctx.route(
        route({
          ...shape,
          path: '/stand-stream/{id}',
          lanes: { plugin: 'all', device: false },
          tag: 'open',
          stream: 'text/plain',
          handler: () => 'x',
        }),
      )
    },
  }),
}

const attackRoute = (
  id: string,
  body: string,
): string => `ctx.route(route({ method: 'GET', path: '/ext/${id}', summary: 'a',
  lanes: admin, replies: { 200: z.object({ value: z.json() }) }, handler: async ({ signal }) => { ${body} } }))`

/** Contained: its isolate lives on. What the caller gets for each. */
const answered: Record<string, [body: string, status: number, value?: unknown]> = {
  'prototype pollution': [
    `Object.prototype.polluted = 'yes'; Array.prototype.map = () => 'yes'; return { value: 'done' }`,
    500,
  ],
  'a polluted answer': [
    `return { value: JSON.parse('{"__proto__": {"polluted": "yes"}, "constructor": {"prototype": {"polluted": "yes"}}}') }`,
    200,
    { constructor: { prototype: { polluted: 'yes' } } },
  ],
  'a walk up the constructors': [
    `const at = [];
    for (const x of [route, z.string, setTimeout, console.log, fetch, signal, ctx, ctx.log.info, ctx.storage.get])
      at.push(x.constructor.constructor('return typeof process + typeof require + typeof module + typeof Buffer')());
    return { value: [...new Set(at)].join() }`,
    200,
    'undefinedundefinedundefinedundefined',
  ],
  'a search for Node': [
    `const names = ['process', 'require', 'module', 'Buffer', 'global', 'ivm', '_ivm', 'Deno', 'WebSocket', 'Worker', 'performance'];
    return { value: names.filter(name => globalThis[name] !== undefined) }`,
    200,
    [],
  ],
  'a search for the bridge': [
    `return { value: Object.getOwnPropertyNames(globalThis).filter(name => /boot|receive|drain|bridge|host$/i.test(name)) }`,
    200,
    [],
  ],
  'stack traces of the host': [
    `let seen; try { await ctx.storage.set('__proto__', 1) } catch (e) { seen = e.stack }
    return { value: /node:|kernel|sandbox|packets/.test(seen) }`,
    200,
    false,
  ],
  'call sites of the host': [
    `const seen = []; Error.prepareStackTrace = (_, sites) => { for (const s of sites) seen.push(typeof s.getThis(), typeof s.getFunction()); return '' };
    (() => new Error('x').stack)(); return { value: [...new Set(seen)].filter(x => x !== 'undefined') }`,
    200,
    [],
  ],
  'getters in the answer': [`let reads = 0; return { get value() { reads += 1; return reads } }`, 200, 1],
  'a proxy as the answer': [`return new Proxy({}, { get: (_, key) => key, ownKeys: () => ['value'] })`, 500],
  'a thenable of thenables': [
    `let calls = 0; const again = { then(done) { calls += 1; done(calls < 50 ? again : { value: calls }) } }; return again`,
    200,
    50,
  ],
  'a toJSON that lies': [`return { value: { toJSON: () => ({ error: 'x', status: 500 }) } }`, 500],
  'an error with a trap': [
    `const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw e } }); throw e`,
    500,
  ],
  'a throw of what is no error': ['throw { toString() { throw 1 } }', 500],
  'headers that forge': [
    `return reply(200, { value: 1 }, { 'set-cookie': 'a=b', 'access-control-allow-origin': '*', location: 'x\\r\\nset-cookie: c=d' })`,
    200,
    1,
  ],
  'deep nesting': ['let value = 1; for (let i = 0; i < 5000; i++) value = [value]; return { value }', 500],
  'deep recursion': [
    'const f = () => f() + 1; try { f() } catch (e) { return { value: e.name } }',
    200,
    'RangeError',
  ],
  'code from strings': [
    `return { value: [eval('1 + 1'), new Function('return typeof process')()] }`,
    200,
    [2, 'undefined'],
  ],
  'a dynamic import': [
    `try { await import('node:fs') } catch (e) { return { value: e.message } }`,
    200,
    'Not supported',
  ],
  'forged log lines': [
    `ctx.log.info('hi\\n{"level":60,"extension":"kernel","msg":"forged"}', { extension: 'kernel', level: 60, msg: 'forged' }); return { value: 1 }`,
    200,
    1,
  ],
  'a flood of lines': [
    `for (let i = 0; i < 900; i++) ctx.log.info('line ' + i); return { value: 1 }`,
    200,
    1,
  ],
  'a flood of timers': [
    'for (let i = 0; i < 800; i++) setTimeout(() => {}, 1e6); return { value: 1 }',
    200,
    1,
  ],
  'storage without end': [
    `const big = 'x'.repeat(60000); for (let i = 0; i < 40; i++) await ctx.storage.set('k' + i, big)`,
    500,
  ],
  'an event of the host': [`ctx.emit(event('host.stopping', z.object({})), {}); return { value: 1 }`, 200, 1],
  'an event that is none': [
    `try { ctx.emit({ kind: 'x', payload: { parse: x => x } }, { seq: 'x' }) } catch { return { value: 'refused' } }`,
    200,
    'refused',
  ],
  'a service undeclared': [
    `return await new Promise((_, no) => ctx.using(token('stand.secrets', '1.0.0'), () => no(new Error('reached'))) ?? setTimeout(() => no(new HttpError(409, 'x')), 50))`,
    500,
  ],
  're-entry from a callback': [
    `const inner = { get value() { void ctx.storage.keys().then(() => ctx.storage.keys()); return 1 } }; return inner`,
    200,
    1,
  ],
}

/** Ends the isolate or the process around it. */
const ended: Record<string, string> = {
  'an endless loop': 'for (;;);',
  'microtasks without end': 'const f = () => Promise.resolve().then(f); await f()',
  'a generator without end': `Array.from((function* () { for (;;) yield 1 })())`,
  'a regular expression of hours': `/^(a+)+$/.test('a'.repeat(60) + 'b')`,
  'growing arrays': `const a = []; for (;;) a.push(new Array(1000).fill(a.length))`,
  'growing maps': `const m = new Map(); for (let i = 0; ; i++) m.set(i, { i })`,
  'growing keys': `const o = {}; for (let i = 0; ; i++) o['k' + i] = i`,
  bigints: `let n = 2n; for (;;) n = n * n`,
  'JSON.parse bombs': `const s = '[' + '{"a":1},'.repeat(2e6) + '1]'; const keep = []; for (;;) keep.push(JSON.parse(s))`,
  'spread bombs': `let a = [1, 2, 3, 4]; for (;;) a = [...a, ...a]`,
  'huge strings': `let s = 'x'.repeat(1e6); const keep = []; for (;;) { s += s.slice(0, 1e7); keep.push(s.split('')) }`,
  'promises without end': `const keep = []; for (;;) keep.push(new Promise(() => {}))`,
  'a hang in the bridge’s own hands': 'Array.prototype.join = () => { for (;;); }; return { value: 1 }',
  'a bridge that says nonsense': `Array.prototype.join = () => '"x"'; return { value: 1 }`,
  'a giant message': `return { value: 'x'.repeat(5e6) }`,
  'a giant log line': `ctx.log.info('x'.repeat(2e6)); return { value: 1 }`,
  'a flood of messages': `for (let i = 0; i < 5000; i++) ctx.log.info('x'); return { value: 1 }`,
  'a sort that never ends': `for (;;) Array.from({ length: 2e5 }, Math.random).sort()`,
}

/** Says anything over the bridge, past all that the runtime looks at, and shows what the host answers. */
const burglar = `const { parse, stringify } = JSON
const replies = new Map()
let last = 1e6
JSON.parse = text => {
  const messages = parse(text)
  if (Array.isArray(messages))
    for (const [kind, id, isGood, value] of messages) if (kind === 'done') replies.get(id)?.(isGood ? { value: value ?? null } : value)
  return messages
}
const raw = (verb, args) => new Promise(done => {
  last += 1
  replies.set(last, done)
  JSON.stringify = () => stringify(['do', last, verb, args])
  ctx.log.info('x')
  JSON.stringify = stringify
})
ctx.route(route({ method: 'POST', path: '/ext/burglar', summary: 'b', lanes: admin, body: z.object({ verb: z.string(), args: z.array(z.json()) }),
  replies: { 200: z.json() }, async handler({ body: { verb, args } }) { return { ...(await raw(verb, args)) } } }))`

const path = (text: string): unknown[] => [
  0,
  { method: 'GET', path: text, summary: 's', lanes: 'open', replies: { 200: {} } },
  1,
]
const point = (id: string) => ({ id, kind: 'waterfall', onFailure: 'skip', limitMs: 250 })
const lacks = (permission: string) => ({ permission })
const status = (code: number) => ({ status: code })
const says = (text: string) => ({ message: expect.stringContaining(text) })

/** With `events:stand.moved`, `hooks:stand.judge`, `api:open` and `routes`: what it tries beyond them, and how it is refused. */
const beyond: [verb: string, args: unknown[], refusal: object][] = [
  ['on', [0, 'host.stopping', 1], lacks('events:host.stopping')],
  ['on', [0, 'stand.*', 1], lacks('events:stand.*')],
  ['on', [0, '*', 1], lacks('events:*')],
  ['on', [0, 'stand.moved.twice', 1], lacks('events:stand.moved.twice')],
  ['on', [0, 'stand.moved\n', 1], lacks('events:stand.moved\n')],
  ['on', [0, '__proto__', 1], lacks('events:__proto__')],
  ['on', [0, { toString: 'stand.moved' }, 1], says('argument 1:')],
  ['tap', [0, point('stand.admit'), 0, 1], lacks('hooks:stand.admit')],
  ['tap', [0, point('*'), 0, 1], lacks('hooks:*')],
  ...[
    '/health',
    '/ext',
    '/ext/neighbour/x',
    '/ext/burglars',
    '/ext/burglar/../neighbour',
    '/ext/burglar/.',
    '/ext/burglar/%2e%2e/x',
    '/ext/burglar//x',
    '/ext/burglar/*',
    '/ext/burglar/x:y',
    '/ext/{id}/x',
    '//ext/burglar',
    'ext/burglar',
  ].map((text): [string, unknown[], object] => ['route', path(text), lacks('routes')]),
  ['route', [0, { ...(path('/ext/burglar/y')[1] as object), absolute: true }, 1], { value: null }],
  ['using', [0, 'kernel.extensions', 1], lacks('services:kernel.extensions')],
  ['service', ['kernel.extensions', 'list', []], lacks('services:kernel.extensions')],
  ['service', ['constructor', 'constructor', []], lacks('services:constructor')],
  ['api', ['PUT', '/extensions/neighbour', { enabled: false }], status(403)],
  ['api', ['PUT', '/stand-false/burglar'], status(403)],
  ['api', ['PUT', '/stand-runner/burglar'], status(403)],
  ['api', ['PUT', '/stand-all/burglar'], status(403)],
  ['api', ['PUT', '/stand-own/neighbour'], status(403)],
  ['api', ['PUT', '/stand-own/..%2fneighbour'], status(403)],
  ['api', ['PUT', '/stand-own/burglar/../neighbour'], status(403)],
  ['api', ['PUT', '/stand-stream/burglar'], status(406)],
  ['api', ['GET', '/../../extensions'], status(400)],
  ['api', ['GET', '/%2e%2e/%2E./extensions'], status(400)],
  ['api', ['GET', '@evil.example/extensions'], status(400)],
  ['api', ['GET', `/${'x'.repeat(5000)}`], says('argument 1:')],
  ['event', ['host.stopping', {}], says('is not its own')],
  ['emit', ['host.stopping', {}], says('was not declared')],
  ['hookPoint', [point('stand.judge')], says('is not its own')],
  ['callHook', ['stand.judge', {}], says('is not its own')],
  ['permit', ['burglar', { granted: ['events:*'] }], status(501)],
  ['constructor', [], status(501)],
]

const talking = new Set([
  'a bridge that says nonsense',
  'a giant message',
  'a giant log line',
  'a flood of messages',
])
const idOf = (name: string): string => name.toLowerCase().replaceAll(/[^a-z]+/g, '-')
const neighbourCode = `ctx.tap(hook.waterfall('stand.judge', { onFailure: 'skip' }), input => ({ ...input, seen: true }))`

let host: TestHost | undefined
afterEach(async () => {
  await host?.stop()
  host = undefined
})
afterAll(() => guests.remove())

const start = async (attacks: readonly (readonly [name: string, body: string])[]): Promise<TestHost> => {
  const folders = await Promise.all([
    guests.setup('neighbour', neighbourCode),
    ...attacks.map(([name, body]) => guests.setup(idOf(name), attackRoute(idOf(name), body))),
  ])
  host = await startHost({ extensions: [stand, ...folders], mayBeOff: true })
  // On a busy machine one may need a second start.
  await expect
    .poll(() => host!.extensions.list().filter(({ state }) => state !== 'on'), { timeout: 60_000 })
    .toEqual([])
  return host
}
const of = (h: TestHost, id: string) => h.extensions.list().find(record => record.id === id)!
const isWell = async (h: TestHost): Promise<void> => {
  expect((await h.inject('GET', '/extensions')).status).toBe(200)
  await expect.poll(() => judge({ a: 1 }), { timeout: 30_000 }).toEqual({ a: 1, seen: true })
  expect(of(h, 'neighbour')).toMatchObject({ state: 'on', why: null })
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
}

test('an isolate survives, and nothing of the host is seen or changed', { timeout: 120_000 }, async () => {
  const h = await start(Object.entries(answered).map(([name, [body]]) => [name, body] as const))
  for (const [name, [, status, value]] of Object.entries(answered)) {
    const answer = await h.inject('GET', `/ext/${idOf(name)}`)
    expect([answer.status, answer.json?.value], name).toEqual([status, value])
    expect(answer.headers, name).not.toHaveProperty('set-cookie')
    expect(answer.headers, name).not.toHaveProperty('access-control-allow-origin')
    expect(of(h, idOf(name)).state, name).toBe('on')
  }
  await isWell(h)
  expect(h.logs.filter(({ msg }) => msg === 'forged')).toEqual([])
  const lines = h.logs.filter(({ extension }) => extension === 'a-flood-of-lines')
  expect(lines.length).toBeLessThan(300)
  const refused = h.logs.filter(({ msg }) => msg.includes('over 256 timers'))
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.length).toBeLessThan(50)
  expect(h.events().filter(({ kind }) => kind === 'host.stopping')).toEqual([])
})

test('an isolate gets no further than its permissions, whatever it says over the bridge', {
  timeout: 60_000,
}, async () => {
  const permissions = ['events:stand.moved', 'hooks:stand.judge', 'api:open', 'routes']
  host = await startHost([
    stand,
    await guests.setup('neighbour', neighbourCode),
    await guests.setup('burglar', burglar, { permissions }),
  ])
  expect(of(host, 'burglar')).toMatchObject({ state: 'on', why: null })
  const say = async (verb: string, args: unknown[]) =>
    (await host!.inject('POST', '/ext/burglar', { body: { verb, args } })).json
  for (const [verb, args, refusal] of beyond)
    expect([verb, args, await say(verb, args)]).toEqual([verb, args, expect.objectContaining(refusal)])
  expect(await say('api', ['PUT', '/stand-own/burglar'])).toEqual({ value: null })
  expect(await say('on', [0, 'stand.moved', 1])).toEqual({ value: null })
  expect((await host.inject('GET', '//ext/burglar/y', { token: null })).status).toBe(404)
  const { effects, state } = of(host, 'burglar')
  expect([state, effects.filter(label => /^(on|tap|using|hook)/.test(label))]).toEqual([
    'on',
    ['on stand.moved'],
  ])
  await isWell(host)
})

test('an isolate that runs, grows or talks without end is ended, and starts again', {
  timeout: 120_000,
}, async () => {
  const h = await start(Object.entries(ended))
  for (const name of Object.keys(ended)) {
    const id = idOf(name)
    await expect.poll(() => of(h, id).state, { timeout: 30_000 }).toBe('on')
    const attack = h.inject('GET', `/ext/${id}`)
    // The host answers others while it is under attack.
    const first = await Promise.race([
      attack.then(() => 'attack'),
      h.inject('GET', '/extensions').then(() => 'host'),
    ])
    if (!talking.has(name)) expect(first, name).toBe('host')
    expect((await attack).status, name).toBe(500)
    await isWell(h)
    await expect.poll(() => of(h, id).state, { timeout: 30_000 }).toBe('on')
    expect(of(h, id).errors, name).toBeGreaterThan(0)
    expect(of(h, id).restarts, name).toBeGreaterThan(0)
    expect(of(h, id).cpu_ms, name).toBeGreaterThan(0)
  }
})

test('whoever brings the shared process down gets one of its own, then quarantine', {
  timeout: 120_000,
}, async () => {
  const h = await start([['bomb', ended['bigints']!]])
  expect((await h.inject('GET', '/ext/bomb')).status).toBe(500)
  await isWell(h)
  await expect.poll(() => of(h, 'bomb').state, { timeout: 30_000 }).toBe('on')
  const before = h.logs.filter(({ extension, msg }) => extension === 'neighbour' && msg === 'on').length
  expect((await h.inject('GET', '/ext/bomb')).status).toBe(500)
  await expect.poll(() => of(h, 'bomb').state, { timeout: 30_000 }).toBe('quarantined')
  expect(of(h, 'bomb').why).toMatch(
    /^brought a sandbox of its own down as well \(.+\); switch it on to try again$/,
  )
  // This time it was alone: nobody else had to start again.
  expect(h.logs.filter(({ extension, msg }) => extension === 'neighbour' && msg === 'on').length).toBe(before)
  await isWell(h)
  expect((await h.extensions.enable('bomb', true)).state).toBe('on')
})
