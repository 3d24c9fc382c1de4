// Everything hot: every built-in switched off and on, singly and in seeded orders, leaves routes, handles, listeners and
// effects as they were; who waits says for what; and a stream of another extension runs through all of it.
import fc from 'fast-check'
import { parseEventStream } from 'svc-host/client'
import type { ExtensionRecord } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { builtInIds, startBuiltIns } from '../contract/built-ins.ts'
import { examplesIn } from '../harness/examples.ts'
import {
  atRest,
  type Holdings,
  heapBytes,
  holdingsSettle,
  routesOf as routesOfHost,
  surfaceOf,
  toggleAll,
} from '../harness/toggling.ts'

let host: TestHost
beforeAll(async () => {
  host = await startBuiltIns()
})
afterAll(() => host?.stop())

const record = (id: string): ExtensionRecord => host.extensions.list().find(each => each.id === id)!
const stateOf = (id: string): string => record(id).state
const routesOf = (owner?: string): string[] => routesOfHost(host, owner)
const surface = () => surfaceOf(host)

async function holdingsBecome(expected: Holdings, what: string): Promise<void> {
  expect(await holdingsSettle(expected), what).toEqual(expected)
}

/** True: a service that `provider` provides is among those that `id` requires. */
const needs = (id: string, provider: string): boolean => {
  const provided = record(provider).provides.map(service => service.split('@')[0])
  return record(id).requires.some(need => provided.includes(need.split('@')[0]))
}

/** Those that cannot run without `id`, by what their manifests require. */
function dependants(id: string): Set<string> {
  const without = new Set([id])
  for (const each of without) for (const other of builtInIds) if (needs(other, each)) without.add(other)
  without.delete(id)
  return without
}

test('every built-in is on to begin with', () => {
  expect(host.extensions.list().filter(({ state }) => state !== 'on')).toEqual([])
})

test('each one, switched off and on, takes everything of its own along and brings it back', async () => {
  // Once before measuring, so that what is loaded once for good has been loaded.
  for (const id of builtInIds) await host.extensions.enable(id, false)
  for (const id of builtInIds) await host.extensions.enable(id, true)
  const [before, held] = [surface(), await atRest()]
  for (const id of builtInIds) {
    const waiting = dependants(id)
    await host.extensions.enable(id, false)
    expect(record(id), id).toMatchObject({ state: 'off', effects: [] })
    expect(routesOf(id), id).toEqual([])
    for (const { id: other, state, why, effects } of host.extensions.list()) {
      if (other === id) continue
      expect(state, `${other} without ${id}`).toBe(waiting.has(other) ? 'waiting' : 'on')
      if (!waiting.has(other)) continue
      expect(effects, `${other} without ${id}`).toEqual([])
      expect(why, `${other} without ${id}`).toMatch(
        /^needs service \S+ \S+ of \S+, which is (switched off|waiting itself)$/,
      )
      // Who needs it directly names it; the others name whom they wait for.
      if (needs(other, id)) expect(why).toContain(` of ${id}, which is switched off`)
    }
    await host.extensions.enable(id, true)
    expect(surface(), `after ${id}`).toEqual(before)
  }
  await holdingsBecome(held, 'what the process holds')
})

test('in whatever order they go and come back, the host ends as it was', async () => {
  const before = surface()
  const held = await atRest()
  const order = fc.shuffledSubarray(builtInIds, { minLength: builtInIds.length })
  let bare: { surface: ReturnType<typeof surface>; held: Holdings } | undefined
  await fc.assert(
    fc.asyncProperty(order, order, async (off, on) => {
      for (const id of off) await host.extensions.enable(id, false)
      // With everything off the process holds the same each time, and the kernel's own routes are all there is.
      expect(
        host.extensions.list().every(({ state, effects }) => state === 'off' && effects.length === 0),
      ).toBe(true)
      expect(routesOf().every(name => name.startsWith('kernel '))).toBe(true)
      bare ??= { surface: surface(), held: await atRest() }
      expect(surface()).toEqual(bare.surface)
      await holdingsBecome(bare.held, 'what the process holds with everything off')
      for (const id of on) {
        await host.extensions.enable(id, true)
        expect(['on', 'waiting'], `${id} is ${stateOf(id)}: ${record(id).why}`).toContain(stateOf(id))
      }
      expect(surface()).toEqual(before)
      await holdingsBecome(held, 'what the process holds with everything on')
    }),
    { numRuns: 5, seed: 20_260_801 },
  )
})

test('switches that come all at once end in one state, the last one asked for', async () => {
  const before = surface()
  const held = await atRest()
  const flips = builtInIds.flatMap(id => [false, true, false, true].map(enabled => ({ id, enabled })))
  await Promise.all(flips.map(({ id, enabled }) => host.extensions.enable(id, enabled)))
  expect(surface()).toEqual(before)
  await holdingsBecome(held, 'what the process holds')
})

/** What is left for good when code has been run for the first time, and what this test keeps, is less than this. */
const slackBytes = 4 * 2 ** 20

async function staysAsItIs(subject: TestHost, rounds = 10): Promise<void> {
  const ids = subject.extensions.list().map(({ id }) => id)
  for (let i = 0; i < Math.min(2, rounds); i++) await toggleAll(subject, ids)
  const [before, held, bytes] = [surfaceOf(subject), await atRest(), await heapBytes()]
  for (let i = 0; i < rounds; i++) {
    await toggleAll(subject, ids)
    expect(surfaceOf(subject), `after round ${i}`).toEqual(before)
  }
  await holdingsSettle(held).then(now => expect(now).toEqual(held))
  expect((await heapBytes()) - bytes, 'bytes more on the heap').toBeLessThan(slackBytes)
}

test('ten rounds of all at once leave nothing', () => staysAsItIs(host))

// A process takes its time to start; more rounds are the soak's.
test.for([
  ['kernel', 10],
  ['isolate', 10],
  ['process', 1],
] as const)('every example, %s realm, rounds: %i, nothing is left', async ([realm, rounds]) => {
  const subject = await startHost(examplesIn(realm), { realm })
  try {
    expect(subject.extensions.list().filter(({ state }) => state !== 'on')).toEqual([])
    await staysAsItIs(subject, rounds)
  } finally {
    await subject.stop()
  }
})

test('an event stream runs through the switching of all others, and tells of each', async () => {
  const stop = new AbortController()
  const answer = await host.open('GET', '/events?kinds=extensions.changed&since=9007199254740991', {
    signal: stop.signal,
  })
  const frames = parseEventStream(answer)
  expect((await frames.next()).value?.event).toBe('live')
  const others = builtInIds.filter(id => id !== 'events' && !dependants(id).has('events'))
  expect(others.length).toBeGreaterThan(5)
  for (const id of others) {
    for (const enabled of [false, true]) {
      await host.extensions.enable(id, enabled)
      const wanted = enabled ? 'on' : 'off'
      for (;;) {
        const { value, done } = await frames.next()
        if (done) throw new Error(`the stream ended when ${id} went ${wanted}`)
        const told = JSON.parse(value.data)
        if (told.id === id && told.state === wanted) break
      }
    }
  }
  // The one connection that has been open all along.
  expect(answer.complete).toBe(false)
  stop.abort()
})

test('nothing of this was an error', () => {
  expect(
    host.logs.filter(({ level }) => level >= 50).map(({ extension, msg }) => `${extension}: ${msg}`),
  ).toEqual([])
})
