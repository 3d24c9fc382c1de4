// The life cycle, the pool and the routes; backends here keep their displays in memory and say when they die.
import fc from 'fast-check'
import type { Mode } from 'svc-host/api/media'
import { startHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'
import { type BackendDisplay, type BackendRequest, type DisplayBackend, DisplayPool } from './api.ts'
import { createIdentitySlots } from './identity.ts'
import { arrange } from './layout.ts'
import { isGone, type Life, type LifeInput, step } from './lifecycle.ts'
import { type DisplayPolicy, defaultPolicy, effectiveTopology, type KeepAlive } from './policy.ts'
import { createPool, type PoolOptions } from './pool.ts'
import { createRooms } from './rooms.ts'
import { displayState } from './state.ts'

const seconds = (n: number): KeepAlive => ({ mode: 'duration', seconds: n })
const leave = (deliberate: boolean, keepAlive: KeepAlive): LifeInput => ({
  type: 'leave',
  deliberate,
  keepAlive,
  nowMs: 0,
})
const active: Life = { state: 'active', sessions: 1 }
const lingering: Life = { state: 'lingering', deadlineMs: 10_000 }
const pinned: Life = { state: 'pinned' }
const released: Life = { state: 'released' }

test.each<[Life, LifeInput, Life]>([
  [{ state: 'idle' }, { type: 'acquire' }, active],
  [active, { type: 'acquire' }, { state: 'active', sessions: 2 }],
  [{ state: 'active', sessions: 2 }, leave(true, seconds(10)), active],
  [active, leave(false, seconds(10)), lingering],
  [active, leave(false, { mode: 'forever' }), pinned],
  [active, leave(true, { mode: 'forever' }), pinned],
  [active, leave(true, seconds(10)), released],
  [active, leave(false, { mode: 'off' }), released],
  [active, leave(false, seconds(0)), released],
  [active, { type: 'release' }, active],
  [active, { type: 'preempt' }, active],
  [lingering, { type: 'time', nowMs: 9_999 }, lingering],
  [lingering, { type: 'time', nowMs: 10_000 }, released],
  [lingering, { type: 'acquire' }, active],
  [lingering, { type: 'release' }, released],
  [lingering, { type: 'preempt' }, released],
  [pinned, { type: 'time', nowMs: 1e15 }, pinned],
  [pinned, { type: 'acquire' }, active],
  [pinned, { type: 'release' }, released],
  [{ state: 'idle' }, { type: 'fail' }, { state: 'failed' }],
  [released, { type: 'acquire' }, released],
])('%o + %o = %o', (life, input, next) => expect(step(life, input)).toEqual(next))

test('over any history: references are counted, what is gone stays gone, what does not apply changes nothing', () => {
  const keepAlive = fc.constantFrom<KeepAlive>({ mode: 'off' }, { mode: 'forever' }, seconds(0), seconds(10))
  const input: fc.Arbitrary<LifeInput> = fc.oneof(
    fc.constantFrom<LifeInput>(
      { type: 'acquire' },
      { type: 'release' },
      { type: 'preempt' },
      { type: 'fail' },
    ),
    fc.record({ type: fc.constant('leave' as const), deliberate: fc.boolean(), keepAlive, nowMs: fc.nat() }),
    fc.record({ type: fc.constant('time' as const), nowMs: fc.nat() }),
  )
  fc.assert(
    fc.property(fc.array(input, { maxLength: 40 }), inputs => {
      let life: Life = { state: 'idle' }
      let references = 0
      for (const each of inputs) {
        const next = step(life, each)
        if (isGone(life)) expect(next).toBe(life)
        else if (each.type === 'acquire') references++
        else if (each.type === 'leave' && references > 0) references--
        if (
          life.state === 'active' &&
          each.type !== 'acquire' &&
          each.type !== 'leave' &&
          each.type !== 'fail'
        ) {
          expect(next).toBe(life)
        }
        life = next
        if (!isGone(life)) expect(life.state === 'active' ? life.sessions : 0).toBe(references)
      }
    }),
  )
})

test('auto-row goes left to right; manual places what it names and appends the rest', () => {
  const members = [1, null, 2].map(identitySlot => ({ identitySlot, width: 1000 }))
  expect(arrange(members, { mode: 'auto-row', positions: { 1: { x: 5, y: 5 } } }).map(({ x }) => x)).toEqual([
    0, 1000, 2000,
  ])
  expect(arrange(members, { mode: 'manual', positions: { 2: { x: 500, y: 40 } } })).toEqual([
    { x: 1500, y: 0 },
    { x: 2500, y: 0 },
    { x: 500, y: 40 },
  ])
})

const mode: Mode = { width: 1280, height: 720, hz: 60 }

test('a client keeps its identity slot; the sixteenth takes that of the one not seen for longest', () => {
  const slots = createIdentitySlots()
  const slotOf = (n: number) => slots.slotOf(String(n), mode, 'per-client')
  for (let n = 1; n <= 15; n++) expect(slotOf(n)).toBe(n)
  expect(slotOf(1)).toBe(1)
  expect(slotOf(16)).toBe(2)
  expect(slots.slotOf(null, mode, 'per-client')).toBeNull()
  expect(slots.slotOf('a', mode, 'shared')).toBeNull()
})

test('topology auto is exclusive unless a compositor is pinned', () => {
  expect([effectiveTopology('auto', false), effectiveTopology('auto', true)]).toEqual(['exclusive', 'extend'])
  expect(effectiveTopology('primary', true)).toBe('primary')
})

interface Made extends BackendDisplay {
  readonly slot: number
  isOpen: boolean
  isAnswering: boolean
  die(): void
}

const memoryBackend = (id: string, extra: Partial<DisplayBackend> = {}) => {
  const made: Made[] = []
  const backend: DisplayBackend = {
    id,
    label: id,
    owned: true,
    preference: 0,
    available: async () => true,
    async create({ slot }) {
      const lost = Promise.withResolvers<void>()
      const display: Made = {
        slot,
        isOpen: true,
        isAnswering: true,
        picture: { kind: 'test' },
        lost: lost.promise,
        die: lost.resolve,
        resize: async () => ({ kind: 'test' }),
        alive: async () => display.isAnswering,
        close: async () => {
          display.isOpen = false
        },
      }
      made.push(display)
      return display
    },
    ...extra,
  }
  return { backend, made }
}

/** A pool on a clock that the test moves. */
const setUp = (policy: Partial<DisplayPolicy> = {}, choice: PoolOptions['choice'] = {}) => {
  let nowMs = 0
  const timers = new Set<{ atMs: number; run: () => void }>()
  const events: string[] = []
  const pool = createPool({
    rooms: createRooms(
      async room => room,
      async () => {},
    ),
    choice,
    policy: () => ({ ...defaultPolicy, ...policy }),
    clock: {
      nowMs: () => nowMs,
      after(delayMs, run) {
        const timer = { atMs: nowMs + delayMs, run }
        timers.add(timer)
        return () => void timers.delete(timer)
      },
    },
    onCreated: backend => events.push(`created ${backend}`),
    onReleased: count => events.push(`released ${count}`),
    onTrouble: message => events.push(message),
  })
  const advance = async (ms: number): Promise<void> => {
    nowMs += ms
    for (const timer of [...timers]) if (timer.atMs <= nowMs && timers.delete(timer)) timer.run()
    await new Promise(setImmediate)
  }
  const acquire = (client: string | null, at: Mode = mode) =>
    pool.acquire({ mode: at, plane: 'native', fingerprint: client, client: client ?? '192.0.2.7' })
  const states = () =>
    displayState(pool.displays(), defaultPolicy.layout, nowMs).map(row => `${row.slot} ${row.state}`)
  return { pool, advance, acquire, states, events, timers }
}

test('the same client gets the same desktop back within ten seconds, and a new one after', async () => {
  const { pool, advance, acquire, states, events } = setUp()
  const { backend, made } = memoryBackend('x11')
  pool.register(backend)
  const first = await acquire('a')
  await first.release({ deliberate: false })
  await first.release({ deliberate: true })
  expect(states()).toEqual(['1 lingering'])
  await advance(9_999)
  expect((await acquire('a')).slot).toBe(1)
  await advance(60_000)
  expect(states()).toEqual(['1 active'])
  await pool.close()
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false])
  expect(events).toEqual(['created x11'])
})

test('a lingering display goes when its time is over, and says so', async () => {
  const { pool, advance, acquire, states, events, timers } = setUp()
  const { backend, made } = memoryBackend('x11')
  pool.register(backend)
  await (await acquire('a')).release({ deliberate: false })
  expect(await pool.kept()).toBe(1)
  await advance(10_000)
  expect(states()).toEqual([])
  expect(made[0]!.isOpen).toBe(false)
  expect(events).toEqual(['created x11', 'released 1'])
  expect(timers.size).toBe(0)
})

test.each<[string, (made: Made[], epoch: { now: number }) => void, string, Mode]>([
  ['another client', () => {}, 'b', mode],
  ['another mode', () => {}, 'a', { ...mode, hz: 120 }],
  [
    'another epoch',
    (_, epoch) => {
      epoch.now++
    },
    'a',
    mode,
  ],
  [
    'a dead server',
    made => {
      made[0]!.isAnswering = false
    },
    'a',
    mode,
  ],
])('%s gets a display of its own', async (_, change, client, at) => {
  const epoch = { now: 1 }
  const { pool, acquire, states } = setUp()
  const { backend, made } = memoryBackend('x11', { epoch: () => epoch.now })
  pool.register(backend)
  await (await acquire('a')).release({ deliberate: false })
  change(made, epoch)
  expect((await acquire(client, at)).slot).toBe(2)
  // One that its own client did not take back is in nobody's way only while another client may not have it.
  expect(states()).toEqual(client === 'b' ? ['1 lingering', '2 active'] : ['2 active'])
  expect(made[0]!.isOpen).toBe(client === 'b')
})

test('an address is no identity: an unidentified client never gets a kept desktop', async () => {
  const { pool, acquire } = setUp()
  pool.register(memoryBackend('x11').backend)
  await (await acquire(null)).release({ deliberate: false })
  expect((await acquire(null)).slot).toBe(2)
})

test('a deliberate quit and a missing first frame leave nothing to linger', async () => {
  const { pool, acquire, states, events } = setUp()
  const { backend, made } = memoryBackend('x11')
  pool.register(backend)
  await (await acquire('a')).release({ deliberate: true })
  await (await acquire('a')).release({ deliberate: false, failed: true })
  expect(states()).toEqual([])
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false, false])
  expect(events).toEqual(['created x11', 'created x11'])
})

test('under join the second session shares the live display until the last one leaves', async () => {
  const { pool, acquire, states } = setUp({ modeConflict: 'join', keepAlive: { mode: 'forever' } })
  pool.register(memoryBackend('x11').backend)
  const [first, second] = [await acquire('a'), await acquire('b', { ...mode, width: 1920 })]
  expect([second.slot, second.mode]).toEqual([1, mode])
  await first.release({ deliberate: true })
  expect(states()).toEqual(['1 active'])
  await second.release({ deliberate: false })
  expect(states()).toEqual(['1 pinned'])
  expect(await pool.releaseKept()).toBe(1)
})

test('at the limit a lingering display gives way, an active one does not', async () => {
  const { pool, acquire, states } = setUp({ maxDisplays: 2 })
  pool.register(memoryBackend('x11').backend)
  await (await acquire('a')).release({ deliberate: false })
  await acquire('b')
  await acquire('c')
  expect(states()).toEqual(['2 active', '3 active'])
  await expect(acquire('d')).rejects.toThrow('all 2 virtual displays that the policy allows are in use')
})

test('two at once of one client get two displays, and one that cannot be made leaves nothing', async () => {
  const { pool, acquire, states } = setUp()
  const { backend } = memoryBackend('x11')
  pool.register(backend)
  await (await acquire('a')).release({ deliberate: false })
  const slots = (await Promise.all([acquire('a'), acquire('a')])).map(({ slot }) => slot)
  expect(slots.sort()).toEqual([1, 2])
  const broken = setUp()
  const fails = memoryBackend('x11', { create: () => Promise.reject(new Error('no room')) })
  broken.pool.register(fails.backend)
  await expect(broken.acquire('a')).rejects.toThrow('no room')
  expect([broken.states(), states()]).toEqual([[], ['1 active', '2 active']])
})

test('when a display dies or its backend leaves, those who hold it are told and nothing stays', async () => {
  const { pool, acquire, states } = setUp()
  const { backend, made } = memoryBackend('x11')
  const leaveBackend = pool.register(backend)
  const [first, second] = [await acquire('a'), await acquire('b')]
  made[0]!.die()
  await first.lost
  expect(states()).toEqual(['2 active'])
  await leaveBackend()
  await second.lost
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false, false])
  await expect(second.resize(mode)).rejects.toThrow('display 2 is gone')
  await expect(acquire('a')).rejects.toThrow('no extension that makes displays is on')
})

test('a backend that leaves while it makes a display takes that down too', async () => {
  const { pool, acquire, states } = setUp()
  const gate = Promise.withResolvers<void>()
  const inner = memoryBackend('x11')
  const create = async (request: BackendRequest) => {
    await gate.promise
    return inner.backend.create(request)
  }
  const leaveBackend = pool.register({ ...inner.backend, create })
  const asked = acquire('a')
  await new Promise(setImmediate)
  const left = leaveBackend()
  gate.resolve()
  await expect(asked).rejects.toThrow('left while it made a display')
  await left
  expect([inner.made[0]!.isOpen, states()]).toEqual([false, []])
})

test('the best backend that can is used; the settings name another; sentences say what is missing', async () => {
  const offer = (pool: ReturnType<typeof setUp>['pool']) => {
    pool.register(memoryBackend('x11').backend)
    pool.register(memoryBackend('kwin', { preference: 10, available: async () => 'no desktop runs' }).backend)
    pool.register(memoryBackend('test-picture', { preference: null, owned: false }).backend)
  }
  const auto = setUp()
  offer(auto.pool)
  expect((await auto.acquire('a')).backend).toBe('x11')
  const software = setUp({}, { source: 'software' })
  offer(software.pool)
  const passed = await software.acquire('a')
  expect([passed.backend, software.states(), software.events]).toEqual(['test-picture', [], []])
  await passed.release({ deliberate: false })
  const named = setUp({}, { compositor: 'kwin' })
  offer(named.pool)
  await expect(named.acquire('a')).rejects.toThrow(
    'SVC_COMPOSITOR asks for kwin, but kwin cannot be used: no desktop runs',
  )
  const absent = setUp({}, { compositor: 'mutter' })
  offer(absent.pool)
  await expect(absent.acquire('a')).rejects.toThrow(
    'no extension that is on offers the display backend mutter',
  )
})

let host: Awaited<ReturnType<typeof startHost>> | undefined
afterEach(async () => {
  await host?.stop()
  host = undefined
})

test('state and release over the API', async () => {
  host = await startHost({ extensions: ['displays', 'test-picture'] })
  const pool = host.service(DisplayPool)!
  pool.register(memoryBackend('x11').backend)
  const ask = { mode, plane: 'native', fingerprint: 'ab'.repeat(32), client: 'ab'.repeat(8) } as const
  const lease = await pool.acquire(ask)
  await pool.acquire({ ...ask, fingerprint: null, client: '192.0.2.7' })
  expect((await host.inject('GET', '/display/state')).json).toEqual({
    displays: [
      {
        slot: 1,
        backend: 'x11',
        mode: '1280x720@60',
        state: 'active',
        expires_in_ms: null,
        sessions: 1,
        client: 'ab'.repeat(8),
        group: 0,
        display_index: 0,
        x: 0,
        y: 0,
        identity_slot: 1,
        topology: 'exclusive',
      },
      expect.objectContaining({
        slot: 2,
        display_index: 1,
        x: 1280,
        y: 0,
        identity_slot: null,
        client: '192.0.2.7',
      }),
    ],
  })
  const release = (body?: unknown) => host!.inject('POST', '/display/release', { body })
  expect(await release({ slot: 1 })).toMatchObject({ status: 409, json: { error: 'display is in use' } })
  expect(await release({ slot: 9 })).toMatchObject({ status: 404, json: { error: 'display not found' } })
  expect((await release({ slot: 'x' })).status).toBe(422)
  expect(await release()).toMatchObject({ status: 200, json: { released: 0 } })
  await lease.release({ deliberate: false })
  const [row] = (await host.inject('GET', '/display/state')).json.displays
  expect(row).toMatchObject({ slot: 1, state: 'lingering', sessions: 0 })
  expect(row.expires_in_ms).toBeGreaterThan(5_000)
  expect(row.expires_in_ms).toBeLessThanOrEqual(10_000)
  expect(await release({ slot: 1 })).toMatchObject({ status: 200, json: { released: 1 } })
  const shown = host.events().filter(({ kind }) => kind.startsWith('display.'))
  expect(shown.map(({ kind, backend, mode, count }) => ({ kind, backend, mode, count }))).toEqual([
    { kind: 'display.created', backend: 'x11', mode: '1280x720@60', count: undefined },
    { kind: 'display.created', backend: 'x11', mode: '1280x720@60', count: undefined },
    { kind: 'display.released', backend: undefined, mode: undefined, count: 1 },
  ])
})

test('compositors: what can be had, and which one an automatic choice takes now', async () => {
  host = await startHost({ extensions: ['displays', 'test-picture'] })
  const pool = host.service(DisplayPool)!
  const list = async () => (await host!.inject('GET', '/compositors')).json
  expect(await list()).toEqual([])
  const leave = pool.register(memoryBackend('x11').backend)
  const absent = { ...memoryBackend('kwin').backend, preference: 9, available: async () => 'no desktop runs' }
  pool.register(absent)
  const label = memoryBackend('x11').backend.label
  expect(await list()).toEqual([
    { id: 'x11', label, available: true, default: true },
    { id: 'kwin', label: absent.label, available: false, default: false },
  ])
  await leave()
  expect(await list()).toEqual([{ id: 'kwin', label: absent.label, available: false, default: false }])
})
