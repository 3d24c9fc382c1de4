// Events and hook points: validated and in order, never in the emitter's way; attributed, timed, skipped or refused.
import { DescribeHost, defineExtension, EventBus, event, HttpError, hook, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createBus } from '../../kernel/events.ts'
import { createHooks } from '../../kernel/hooks.ts'

let host: TestHost | undefined
afterEach(() => host?.stop())

const later = () => new Promise(done => setImmediate(done))
const Rang = event('bell.rang', z.object({ times: z.number().int(), by: z.string().optional() }))

const nobody = (): never => {
  throw new Error('nothing may go wrong here')
}

test('the envelope is flat, numbered from 1, and values that do not exist are left out', () => {
  const bus = createBus(nobody)
  const record = bus.emit(Rang, { times: 2, by: undefined })
  expect(record).toEqual({ seq: 1, ts_ms: expect.any(Number), schema: 1, kind: 'bell.rang', times: 2 })
  expect(Object.isFrozen(record)).toBe(true)
  expect(() => bus.emit(Rang, { times: 1.5 })).toThrow(/^event bell.rang: times: /)
  expect(bus.newest()).toBe(1)
})

test('the ring holds 1024 and says when something was evicted', () => {
  const bus = createBus(nobody)
  expect(bus.replay(0)).toEqual({ events: [], dropped: false })
  for (let i = 0; i < 1024; i++) bus.emit(Rang, { times: i })
  expect(bus.replay(0)).toMatchObject({ dropped: false, events: { length: 1024 } })
  bus.emit(Rang, { times: 0 })
  expect(bus.replay(0)).toMatchObject({ dropped: true, events: { length: 1024 } })
  expect(bus.replay(1)).toMatchObject({ dropped: false })
  expect(bus.replay(1023).events.map(({ seq }) => seq)).toEqual([1024, 1025])
  expect(bus.replay(9_007_199_254_740_991)).toEqual({ events: [], dropped: false })
})

test('observers are told after the emitter, in order, and what they throw is laid at their door', async () => {
  const faults: string[] = []
  const bus = createBus((owner, during, error) =>
    faults.push(`${owner} ${during} ${(error as Error).message}`),
  )
  const seen: number[] = []
  bus.on('ear', 'bell.rang', ({ seq }) => seen.push(seq))
  const stop = bus.on('gone', 'bell.rang', () => seen.push(-1))
  bus.on('bad', 'bell.rang', () => {
    throw new Error('ouch')
  })
  bus.on('bad', 'bell.rang', async () => {
    throw new Error('late ouch')
  })
  bus.emit(Rang, { times: 1 })
  const fromNow = bus.subscribe(({ seq }) => seen.push(seq * 100))
  stop()
  expect(seen).toEqual([])
  bus.emit(Rang, { times: 2 })
  await later()
  expect(seen).toEqual([1, 2, 200])
  expect(faults.toSorted()).toEqual([
    'bad event bell.rang late ouch',
    'bad event bell.rang late ouch',
    'bad event bell.rang ouch',
    'bad event bell.rang ouch',
  ])
  fromNow()
  bus.emit(Rang, { times: 3 })
  await later()
  expect(seen).toEqual([1, 2, 200, 3])
})

const Sum = hook.waterfall<number>('sum.make', { onFailure: 'skip', limitMs: 40 })
const Ask = hook.bail<string, string>('door.ask', { onFailure: 'refuse', limitMs: 40 })
const Gate = token<{ ask(name: string): Promise<string | undefined>; sum(): Promise<number> }>(
  'gate.keeper',
  '1.0.0',
)

const gate: InlineExtension = {
  manifest: { id: 'gate', provides: { 'gate.keeper': '1.0.0' } },
  extension: defineExtension({
    setup(ctx) {
      const ask = ctx.hookPoint(Ask)
      const sum = ctx.hookPoint(Sum)
      ctx.provide(Gate, { ask, sum: () => sum(1) })
    },
  }),
}
const tapper = (id: string, ...taps: [any, (input: any) => unknown, number?][]): InlineExtension => ({
  manifest: { id },
  extension: defineExtension({
    setup(ctx) {
      for (const [point, fn, order] of taps) ctx.tap(point, fn as never, { order: order ?? 0 })
    },
  }),
})
const hangs = () => new Promise(() => {})

test('a waterfall runs by order; a tap that throws or hangs is skipped, counted and named; taps leave', async () => {
  host = await startHost({
    extensions: [
      tapper('late', [Sum, n => n * 10, 5]),
      tapper('early', [Sum, n => n + 1, -5]),
      tapper('none', [Sum, () => undefined]),
      tapper('bad', [Sum, () => Promise.reject(new Error('bad sum'))]),
      tapper('slow', [Sum, hangs]),
      gate,
    ],
  })
  expect(await host.service(Gate)!.sum()).toBe(20)
  const faults = host.logs.filter(({ level }) => level === 50).map(({ msg }) => msg)
  expect(faults).toEqual(['[bad] hook sum.make: bad sum', '[slow] hook sum.make: took longer than 40 ms'])
  expect(host.extensions.list().find(({ id }) => id === 'bad')?.errors).toBe(1)
  await host.extensions.enable('slow', false)
  await host.extensions.enable('late', false)
  expect(await host.service(Gate)!.sum()).toBe(2)
})

test('a bail stops at the first answer; refusing points pass typed refusals on and attribute mistakes', async () => {
  const refuse = () => {
    throw new HttpError(409, 'the door is shut')
  }
  host = await startHost({
    extensions: [
      tapper('a', [Ask, name => (name === 'friend' ? 'in' : undefined)]),
      tapper('b', [Ask, name => (name === 'foe' ? refuse() : undefined)]),
      tapper('c', [Ask, name => (name === 'bug' ? Promise.reject(new Error('oops')) : undefined)]),
      gate,
    ],
  })
  const { ask } = host.service(Gate)!
  expect(await ask('friend')).toBe('in')
  expect(await ask('stranger')).toBeUndefined()
  await expect(ask('foe')).rejects.toMatchObject({ status: 409, message: 'the door is shut' })
  await expect(ask('bug')).rejects.toThrow('[c] hook door.ask: oops')
  expect(host.extensions.list().map(({ errors }) => errors)).toEqual([0, 0, 1, 0])
})

test('a call under way keeps its taps; a second owner and a wrong kind are refused', async () => {
  const hooks = createHooks(nobody)
  const point = hook.waterfall<string>('word.make', { onFailure: 'skip' })
  const { call, release } = hooks.own('owner', point as never)
  const go = Promise.withResolvers<void>()
  hooks.tap(
    'x',
    point as never,
    (async (word: string) => {
      await go.promise
      return `${word}x`
    }) as never,
    0,
  )
  const untap = hooks.tap('y', point as never, ((word: string) => `${word}y`) as never, 1)
  const running = call('')
  await later()
  untap()
  go.resolve()
  expect(await running).toBe('xy')
  expect(await call('')).toBe('x')
  expect(() => hooks.own('other', point as never)).toThrow('hook point word.make belongs to owner already')
  expect(() => hooks.tap('z', { ...point, kind: 'bail' } as never, (() => {}) as never, 0)).toThrow(
    'hook point word.make is waterfall, not bail',
  )
  release()
})

test('each tap is timed, and its owner can see it', async () => {
  const hooks = createHooks(nobody)
  const point = hook.waterfall<string>('word.make', { onFailure: 'skip' })
  const { call } = hooks.own('owner', point as never)
  const slow = async (word: string) => {
    await new Promise(done => setTimeout(done, 30))
    return word
  }
  hooks.tap('slow', point as never, slow as never, 0)
  hooks.tap('quick', point as never, ((word: string) => word) as never, 1)
  expect(hooks.taps('slow')).toEqual([{ hook: 'word.make', calls: 0, p50_ms: null, p99_ms: null }])
  for (let i = 0; i < 3; i++) await call('')
  expect(hooks.taps('slow')).toEqual([
    { hook: 'word.make', calls: 3, p50_ms: expect.any(Number), p99_ms: expect.any(Number) },
  ])
  expect(hooks.taps('slow')[0]!.p50_ms).toBeGreaterThanOrEqual(29)
  expect(hooks.taps('quick')[0]!.calls).toBe(3)
  expect(hooks.taps('nobody')).toEqual([])
})

test('host.started carries what extensions add; the bus is a service', async () => {
  let newest = 0
  const watcher: InlineExtension = {
    manifest: { id: 'watcher', requires: { 'kernel.bus': '^1.0.0' } },
    extension: defineExtension({
      deps: { bus: EventBus },
      setup(ctx, { bus }) {
        ctx.on(event('host.started', z.object({})), () => {
          newest = bus.newest()
        })
        ctx.tap(DescribeHost, facts => ({ ...facts, colour: 'blue' }))
      },
    }),
  }
  host = await startHost({ extensions: [watcher] })
  await later()
  expect(host.events().at(-1)).toMatchObject({
    kind: 'host.started',
    colour: 'blue',
    version: expect.any(String),
  })
  expect(newest).toBe(host.events().length)
})
