// The life of extensions: start order, ranges, cascades, conflicts, and that failure and restarts leave nothing.
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { defineExtension, Extensions, event, hook, route, streamReply, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'
import { z } from 'zod'

const Clock = token<{ now(): number }>('clock.time', '1.2.0')
const Diary = token<{ write(): void }>('diary.pages', '1.0.0')

let host: TestHost | undefined
afterEach(async () => {
  await host?.stop()
  host = undefined
})

const steps: string[] = []
const start = async (...extensions: InlineExtension[]): Promise<TestHost> => {
  steps.length = 0
  host = await startHost({ extensions })
  return host
}

const noted = (id: string) => async (ctx: { effect(l: string, s: () => () => void): Promise<void> }) => {
  steps.push(`+${id}`)
  await ctx.effect('note', () => () => void steps.push(`-${id}`))
}

const clock = (version = '1.2.0', id = 'clock'): InlineExtension => ({
  manifest: { id, provides: { 'clock.time': version } },
  extension: defineExtension({
    async setup(ctx) {
      await noted(id)(ctx)
      ctx.provide({ ...Clock, version }, { now: () => 42 })
    },
  }),
})

const diary = (range = '^1.1.0'): InlineExtension => ({
  manifest: { id: 'a-diary', requires: { 'clock.time': range }, provides: { 'diary.pages': '1.0.0' } },
  extension: defineExtension({
    deps: { clock: Clock },
    async setup(ctx, services) {
      await noted('a-diary')(ctx)
      expect(services.clock.now()).toBe(42)
      ctx.provide(Diary, { write: () => {} })
      ctx.route(
        route({
          method: 'GET',
          path: '/diary',
          summary: 'Read',
          lanes: 'open',
          replies: { 200: z.object({ at: z.number() }) },
          handler: () => ({ at: services.clock.now() }),
        }),
      )
    },
  }),
})

const reader: InlineExtension = {
  manifest: { id: 'a-reader', requires: { 'diary.pages': '^1.0.0' } },
  extension: defineExtension({ deps: { diary: Diary }, setup: ctx => noted('a-reader')(ctx) }),
}

const of = (h: TestHost, id: string) => h.extensions.list().find(record => record.id === id)!

test('starts in the order of needs, stops dependants first, and starts them again when the provider returns', async () => {
  const h = await start(reader, diary(), clock())
  expect(steps).toEqual(['+clock', '+a-diary', '+a-reader'])
  expect((await h.inject('GET', '/diary', { token: null })).json).toEqual({ at: 42 })
  await h.extensions.enable('clock', false)
  expect(steps.slice(3)).toEqual(['-a-reader', '-a-diary', '-clock'])
  expect((await h.inject('GET', '/diary')).status).toBe(404)
  expect(of(h, 'a-diary')).toMatchObject({
    state: 'waiting',
    why: 'needs service clock.time ^1.1.0 of clock, which is switched off',
  })
  expect(of(h, 'a-reader').why).toContain('needs service diary.pages ^1.0.0 of a-diary, which is waiting')
  await h.extensions.enable('clock', true)
  expect(steps.slice(6)).toEqual(['+clock', '+a-diary', '+a-reader'])
  expect((await h.inject('GET', '/diary')).json).toEqual({ at: 42 })
  expect(h.extensions.list().map(({ why }) => why)).toEqual([null, null, null])
})

test('names the range wanted and what was found', async () => {
  const h = await start(diary('^2.0.0'), clock())
  expect(of(h, 'a-diary')).toMatchObject({
    state: 'waiting',
    why: 'needs service clock.time ^2.0.0, but clock provides 1.2.0',
  })
  await h.stop()
  const alone = await start(diary())
  expect(of(alone, 'a-diary').why).toBe('needs service clock.time ^1.1.0, which nobody provides')
})

test('a cycle waits, with the reason, and nothing else does', async () => {
  const A = token('a.thing', '1.0.0')
  const B = token('b.thing', '1.0.0')
  const side = (id: string, needs: typeof A, gives: typeof A): InlineExtension => ({
    manifest: { id, requires: { [needs.id]: '*' }, provides: { [gives.id]: '1.0.0' } },
    extension: defineExtension({ deps: { needs }, setup: ctx => ctx.provide(gives, {}) }),
  })
  const h = await start(side('side-a', B, A), side('side-b', A, B), clock())
  expect(of(h, 'side-a').state).toBe('waiting')
  expect(of(h, 'side-b').why).toContain('of side-a, which is waiting')
  expect(of(h, 'clock').state).toBe('on')
})

test('a second provider waits, names the first and follows it; a version other than the manifest says fails', async () => {
  const liar: InlineExtension = {
    manifest: { id: 'liar', provides: { 'diary.pages': '2.0.0' } },
    extension: defineExtension({ setup: ctx => ctx.provide(Diary, { write: () => {} }) }),
  }
  const h = await start(clock(), clock('1.2.0', 'z-clock'), liar)
  expect(of(h, 'z-clock')).toMatchObject({
    state: 'waiting',
    why: 'provides service clock.time, which clock provides already; switch one of the two off',
  })
  expect(of(h, 'liar').why).toContain('provides service diary.pages 1.0.0, but extension.json says 2.0.0')
  expect(of(h, 'clock').state).toBe('on')
  await h.extensions.enable('clock', false)
  expect(of(h, 'z-clock').state).toBe('on')
  await h.extensions.enable('clock', true)
  expect([of(h, 'clock').state, of(h, 'z-clock').state]).toEqual(['waiting', 'on'])
})

test('of two that provide one service the first by id wins, however slow it and what it needs are', async () => {
  const slow: InlineExtension = {
    manifest: { id: 'slow', provides: { 'test.slow': '1.0.0' } },
    extension: defineExtension({
      async setup(ctx) {
        await new Promise(done => setTimeout(done, 100))
        ctx.provide(token<object>('test.slow', '1.0.0'), {})
      },
    }),
  }
  const first: InlineExtension = {
    manifest: { id: 'first', requires: { 'test.slow': '*' }, provides: { 'clock.time': '1.2.0' } },
    extension: defineExtension({
      deps: { slow: token<object>('test.slow', '1.0.0') },
      async setup(ctx) {
        await new Promise(done => setTimeout(done, 100))
        ctx.provide(Clock, { now: () => 1 })
      },
    }),
  }
  const h = await start(slow, first, clock())
  expect([of(h, 'first').state, of(h, 'clock').why]).toEqual([
    'on',
    'provides service clock.time, which first provides already; switch one of the two off',
  ])
  // It holds nobody up that will not come.
  await h.extensions.enable('first', false)
  await h.extensions.enable('slow', false)
  await h.extensions.enable('first', true)
  expect([of(h, 'first').state, (await h.extensions.enable('clock', true)).state]).toEqual(['waiting', 'on'])
})

test('deps and manifest must name the same services', async () => {
  const missing: InlineExtension = {
    manifest: { id: 'missing' },
    extension: defineExtension({ deps: { clock: Clock }, setup: () => {} }),
  }
  const extra: InlineExtension = {
    manifest: { id: 'extra', requires: { 'clock.time': '*' } },
    extension: defineExtension({ setup: () => {} }),
  }
  const h = await start(missing, extra, clock())
  expect(of(h, 'missing').why).toContain(
    'deps.clock is clock.time, which "requires" in extension.json does not name',
  )
  expect(of(h, 'extra').why).toContain('extension.json requires clock.time, which deps does not name')
})

test('a failing setup undoes everything, last first, and stops nobody else; switching it on tries again', async () => {
  let isBroken = true
  const broken: InlineExtension = {
    manifest: { id: 'broken', provides: { 'diary.pages': '1.0.0' } },
    extension: defineExtension({
      async setup(ctx) {
        ctx.provide(Diary, { write: () => {} })
        await ctx.effect('one', () => () => void steps.push('-one'))
        await ctx.effect('two', async () => async () => {
          await new Promise(done => setTimeout(done, 5))
          steps.push('-two')
        })
        if (isBroken) throw new Error('no luck')
      },
    }),
  }
  const h = await start(broken, clock())
  expect(steps).toEqual(['+clock', '-two', '-one'])
  expect(of(h, 'broken')).toMatchObject({
    state: 'failed',
    why: 'setup failed: no luck',
    effects: [],
    errors: 1,
    taps: [],
  })
  expect(h.service(Diary)).toBeUndefined()
  const line = h.logs.find(({ msg }) => msg === '[broken] setup: no luck')
  expect(line).toMatchObject({ extension: 'broken', during: 'setup' })
  isBroken = false
  expect((await h.extensions.enable('broken', true)).state).toBe('on')
  expect(h.service(Diary)).toBeDefined()
})

test('an undo that throws is laid at its owner and stops no other undo', async () => {
  const clumsy: InlineExtension = {
    manifest: { id: 'clumsy' },
    extension: defineExtension({
      async setup(ctx) {
        await ctx.effect('first', () => () => void steps.push('-first'))
        await ctx.effect('second', () => () => {
          throw new Error('stuck')
        })
      },
    }),
  }
  const h = await start(clumsy)
  const record = await h.extensions.enable('clumsy', false)
  expect(record).toMatchObject({ state: 'off', errors: 1, effects: [] })
  expect(steps).toEqual(['-first'])
  expect(h.logs.map(({ msg }) => msg)).toContain('[clumsy] undo of "second": stuck')
})

test('a scope that is closing refuses what comes late and undoes it at once', async () => {
  let late: Promise<string> | undefined
  const slow: InlineExtension = {
    manifest: { id: 'slow' },
    extension: defineExtension({
      setup(ctx) {
        ctx.signal.addEventListener('abort', () => {
          late = ctx
            .effect('too late', () => () => {})
            .then(
              () => 'registered',
              error => (error as Error).message,
            )
        })
      },
    }),
  }
  const h = await start(slow)
  await h.extensions.enable('slow', false)
  expect(await late).toBe('slow is stopping; "too late" was not registered')
})

test('an optional service comes and goes without a restart, and takes what was registered on it along', async () => {
  const guest: InlineExtension = {
    manifest: { id: 'guest', optional: { 'clock.time': '^1.0.0' } },
    extension: defineExtension({
      async setup(ctx) {
        await noted('guest')(ctx)
        ctx.using(Clock, async (service, sub) => {
          await sub.effect('tick', () => {
            steps.push(`tick ${service.now()}`)
            return () => void steps.push('untick')
          })
          sub.route(
            route({
              method: 'GET',
              path: '/tick',
              summary: 'Tick',
              lanes: 'open',
              replies: { 200: z.object({ at: z.number() }) },
              handler: () => ({ at: service.now() }),
            }),
          )
        })
      },
    }),
  }
  const h = await start(guest, clock())
  expect(steps).toEqual(
    ['+clock', '+guest', 'tick 42'].toSorted((a, b) => steps.indexOf(a) - steps.indexOf(b)),
  )
  expect((await h.inject('GET', '/tick')).status).toBe(200)
  await h.extensions.enable('clock', false)
  expect(steps.slice(3)).toEqual(['untick', '-clock'])
  expect((await h.inject('GET', '/tick')).status).toBe(404)
  expect(of(h, 'guest').effects).toEqual(['note', 'wait for clock.time'])
  await h.extensions.enable('clock', true)
  expect(steps.slice(5)).toEqual(['+clock', 'tick 42'])
  expect((await h.inject('GET', '/tick')).status).toBe(200)
})

test('a service given on an optional one takes its dependants along when that one goes', async () => {
  const bridge: InlineExtension = {
    manifest: { id: 'bridge', optional: { 'clock.time': '*' }, provides: { 'diary.pages': '1.0.0' } },
    extension: defineExtension({
      setup: ctx => ctx.using(Clock, (_service, sub) => sub.provide(Diary, { write: () => {} })),
    }),
  }
  const h = await start(bridge, reader, clock())
  expect(of(h, 'a-reader').state).toBe('on')
  await h.extensions.enable('clock', false)
  expect(of(h, 'bridge').state).toBe('on')
  expect(of(h, 'a-reader')).toMatchObject({
    state: 'waiting',
    why: 'needs service diary.pages ^1.0.0 of bridge, which is on, but does not offer it now',
  })
  expect(steps.indexOf('-a-reader')).toBeLessThan(steps.indexOf('-clock'))
  await h.extensions.enable('clock', true)
  expect(of(h, 'a-reader').state).toBe('on')
})

test('a duplicate route costs its owner, not the first, and its dependants follow', async () => {
  const twice = (id: string): InlineExtension => ({
    ...diary(),
    manifest: { ...diary().manifest, id, provides: id === 'a-diary' ? { 'diary.pages': '1.0.0' } : {} },
    ...(id !== 'a-diary' && {
      extension: defineExtension({
        deps: { clock: Clock },
        setup: ctx =>
          ctx.route(
            route({
              method: 'GET',
              path: '/diary',
              summary: 'Twice',
              lanes: 'open',
              replies: { 200: z.object({}) },
              handler: () => ({}),
            }),
          ),
      }),
    }),
  })
  const h = await start(clock(), twice('a-diary'), twice('b-diary'))
  expect(of(h, 'a-diary').state).toBe('on')
  expect(of(h, 'b-diary')).toMatchObject({ state: 'failed', effects: [] })
  expect(of(h, 'b-diary').why).toContain('a-diary has this route already')
  expect((await h.inject('GET', '/diary')).json).toEqual({ at: 42 })
})

test('an extension that hangs in its setup keeps nobody else waiting, to start or to be served', async () => {
  let gate = Promise.resolve()
  const hanging: InlineExtension = {
    manifest: { id: 'hanging' },
    extension: defineExtension({ setup: () => gate }),
  }
  const page: InlineExtension = {
    manifest: { id: 'page' },
    extension: defineExtension({
      setup: ctx =>
        ctx.route(
          route({
            method: 'GET',
            path: '/page',
            summary: '',
            lanes: 'open',
            replies: { 200: z.object({}) },
            handler: () => ({}),
          }),
        ),
    }),
  }
  const h = await start(hanging, page)
  for (const id of ['hanging', 'page']) await h.extensions.enable(id, false)
  const { promise, resolve: open } = Promise.withResolvers<void>()
  gate = promise
  const both = [h.extensions.enable('hanging', true), h.extensions.enable('page', true)]
  await expect.poll(async () => (await h.inject('GET', '/page')).status, { timeout: 5000 }).toBe(200)
  expect(of(h, 'hanging').state).toBe('starting')
  open()
  expect((await Promise.all(both)).map(({ state }) => state)).toEqual(['on', 'on'])
})

test('switches thrown at once are all kept, in memory and over a restart', async () => {
  const ids = Array.from({ length: 30 }, (_, i) => `x${i}`)
  const h = await start(...ids.map(id => ({ manifest: { id }, extension: defineExtension({ setup() {} }) })))
  await Promise.all(ids.map(id => h.extensions.enable(id, false)))
  await Promise.all(ids.map((id, i) => h.extensions.enable(id, i % 2 === 0)))
  const off = ids.filter((_, i) => i % 2)
  expect(h.extensions.list().flatMap(({ id, state }) => (state === 'off' ? [id] : []))).toEqual(off)
  const stored = JSON.parse(readFileSync(join(h.configDir, 'extensions.json'), 'utf8'))
  expect(stored.disabled).toEqual([...off].sort())
})

test('a hundred restarts leave nothing behind', async () => {
  const Tick = event('clock.ticked', z.object({}))
  const point = hook.series<number>('clock.adjust', { onFailure: 'skip' })
  const busy: InlineExtension = {
    manifest: { id: 'busy', optional: { 'clock.time': '*' } },
    extension: defineExtension({
      async setup(ctx) {
        ctx.on(Tick, () => {})
        ctx.tap(point, () => {})
        ctx.hookPoint(hook.bail('busy.ask', { onFailure: 'skip' }))
        ctx.using(Clock, (_service, sub) => sub.on(Tick, () => {}))
        const timer = await ctx.effect('timer', () => {
          const t = setInterval(() => {}, 1000)
          return () => clearInterval(t)
        })
        return timer
      },
    }),
  }
  const h = await start(busy, clock(), diary())
  const settle = () => new Promise(done => setTimeout(done, 50))
  const holdings = () => ({
    effects: h.extensions.list().map(({ effects }) => effects),
    timers: process.getActiveResourcesInfo().filter(name => name === 'Timeout').length,
  })
  await settle()
  const before = holdings()
  for (let i = 0; i < 100; i++) {
    await h.extensions.enable(i % 2 ? 'busy' : 'clock', false)
    await h.extensions.enable(i % 2 ? 'busy' : 'clock', true)
  }
  await settle()
  const after = holdings()
  expect(after.effects).toEqual(before.effects)
  // Not equal: the connections of the listener have timers of their own, which come and go.
  expect(after.timers).toBeLessThan(before.timers + 10)
  expect(h.extensions.list().map(({ state, errors }) => [state, errors])).toEqual(Array(3).fill(['on', 0]))
})

test('a choice that cannot be stored is refused with why, and nothing changes', async () => {
  const h = await start(clock())
  // Something stands where the file goes: a disk that takes no more, for root too.
  await mkdir(join(h.configDir, 'extensions.json'))
  expect(await h.inject('PUT', '/extensions/clock', { body: { enabled: false } })).toMatchObject({
    status: 500,
    json: { error: expect.stringMatching(/^the choice cannot be stored, so nothing has changed: EISDIR/) },
  })
  expect(of(h, 'clock')).toMatchObject({ state: 'on', enabled: true })
})

test('GET and PUT /extensions: admin only, stored, announced', async () => {
  const h = await start(clock(), reader)
  expect((await h.inject('GET', '/extensions', { token: null })).status).toBe(401)
  const list = (await h.inject('GET', '/extensions')).json.extensions
  expect(list.map((e: { id: string; state: string }) => [e.id, e.state])).toEqual([
    ['clock', 'on'],
    ['a-reader', 'waiting'],
  ])
  const off = await h.inject('PUT', '/extensions/clock', { body: { enabled: false } })
  expect([off.status, off.json.state, off.json.why]).toEqual([200, 'off', 'is switched off'])
  expect((await h.inject('PUT', '/extensions/none', { body: { enabled: false } })).json).toEqual({
    error: 'there is no extension "none"',
  })
  expect((await h.inject('PUT', '/extensions/clock', { body: {} })).status).toBe(400)
  const told = h.events().filter(({ kind }) => kind === 'extensions.changed')
  expect(told.at(-1)).toMatchObject({ id: 'clock', state: 'off', schema: 1 })
  expect(h.events().find(({ kind }) => kind === 'host.started')).toMatchObject({
    version: expect.any(String),
  })
})

const hanging = (): InlineExtension => ({
  manifest: { id: 'hanging' },
  extension: defineExtension({
    async setup(ctx) {
      await noted('hanging')(ctx as never)
      await new Promise(() => {})
    },
  }),
})

test('switching off does not wait for a setup that hangs', async () => {
  const helper: InlineExtension = {
    manifest: { id: 'helper', requires: { 'kernel.extensions': '^1.0.0' } },
    extension: defineExtension({
      deps: { extensions: Extensions },
      setup: (_ctx, { extensions }) => void setTimeout(() => void extensions.enable('hanging', false), 50),
    }),
  }
  const h = await start(hanging(), helper)
  expect(steps).toEqual(['+hanging', '-hanging'])
  expect(of(h, 'hanging')).toMatchObject({ state: 'off', why: 'is switched off', errors: 0 })
})

test('an undo that hangs cannot hold the stop up for more than five seconds', async () => {
  const stuck: InlineExtension = {
    manifest: { id: 'stuck' },
    extension: defineExtension({ setup: ctx => ctx.effect('glue', () => () => new Promise(() => {})) }),
  }
  const h = await start(stuck)
  const startedAt = performance.now()
  await h.stop()
  expect(performance.now() - startedAt).toBeLessThan(5800)
  expect(h.logs.at(-1)?.msg).toContain('the stop took over 5000 ms')
})

test('toggling another extension never cuts a stream; toggling its own ends it, whole', async () => {
  const streamer: InlineExtension = {
    manifest: { id: 'streamer' },
    extension: defineExtension({
      setup(ctx) {
        async function* ticks(signal: AbortSignal) {
          yield 'begin\n'
          await new Promise(done => signal.addEventListener('abort', done))
          yield 'end\n'
        }
        ctx.route(
          route({
            method: 'GET',
            path: '/ticks',
            summary: 'Tick',
            lanes: 'open',
            stream: 'text/plain',
            handler: ({ signal }) => streamReply({}, ticks(signal)),
          }),
        )
      },
    }),
  }
  const h = await start(streamer, clock(), diary())
  const answer = await h.open('GET', '/ticks')
  let received = ''
  answer.setEncoding('utf8').on('data', text => {
    received += text
  })
  await expect.poll(() => received).toBe('begin\n')
  await h.extensions.enable('clock', false)
  await h.extensions.enable('clock', true)
  expect([received, answer.destroyed]).toEqual(['begin\n', false])
  await h.extensions.enable('streamer', false)
  await expect.poll(() => answer.complete).toBe(true)
  expect(received).toBe('begin\nend\n')
})
