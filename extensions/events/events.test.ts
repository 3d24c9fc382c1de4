// The feed on the kernel's own bus: what a stream gets, in which order, and when it is let go.
import fc from 'fast-check'
import { type EventRecord, event } from 'svc-host/sdk'
import { afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createBus } from '../../kernel/events.ts'
import { tailCursor } from './api.ts'
import { cursorOf } from './cursor.ts'
import { createFeed } from './feed.ts'
import { frameOf } from './frame.ts'
import { kindFilter } from './kinds.ts'

const tick = event('test.tick', z.object({ n: z.int() }))
const tock = event('test.tock', z.object({ n: z.int() }))
const settled = () => new Promise(done => setImmediate(done))

const readers: AbortController[] = []
afterEach(() => {
  for (const reader of readers.splice(0)) reader.abort()
})

function setUp() {
  const bus = createBus((_owner, during, error) => expect.fail(`${during}: ${error}`))
  const feed = createFeed(bus)
  const emit = (count: number, kind = tick) => {
    for (let n = 0; n < count; n++) bus.emit(kind, { n })
  }
  const open = (cursor?: number, kinds?: string) => {
    const gone = new AbortController()
    readers.push(gone)
    let isBehind = false
    const onBehind = () => {
      isBehind = true
    }
    const body = feed.open({ cursor, wants: kindFilter(kinds), signal: gone.signal, onBehind })
    const frames = body[Symbol.asyncIterator]()
    /** Frames as names: the sequence number of an event, or what a control frame is called; `:` for a heartbeat. */
    const next = async (): Promise<string[] | 'end'> => {
      const { done, value } = await frames.next()
      if (done) return 'end'
      return value
        .split('\n\n')
        .filter(Boolean)
        .map(frame => /^id: (\d+)/.exec(frame)?.[1] ?? /^event: (\w+)/.exec(frame)?.[1] ?? frame)
    }
    return { next, leave: () => gone.abort(), frames, isBehind: () => isBehind }
  }
  return { bus, feed, emit, open }
}

const upTo = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => String(first + i))

/** Everything up to and with `live`. */
async function replayed(stream: { next(): Promise<string[] | 'end'> }): Promise<string[]> {
  const all: string[] = []
  while (all.at(-1) !== 'live') {
    const piece = await stream.next()
    if (piece === 'end') throw new Error('the stream ended before it was live')
    all.push(...piece)
  }
  return all
}

test('without a cursor the whole ring is replayed, then the stream is live', async () => {
  const { emit, open } = setUp()
  emit(3)
  const stream = open()
  emit(1)
  expect(await replayed(stream)).toEqual(['1', '2', '3', 'live'])
  expect(await stream.next()).toEqual(['4'])
})

test('a cursor goes on after it; one at the newest event replays nothing', async () => {
  const { emit, open } = setUp()
  emit(5)
  expect(await replayed(open(3))).toEqual(['4', '5', 'live'])
  expect(await replayed(open(5))).toEqual(['live'])
})

test('what the ring has lost is said first, then what it still holds follows', async () => {
  const { emit, open } = setUp()
  emit(1030)
  expect(await replayed(open(2))).toEqual(['dropped', ...upTo(7, 1030), 'live'])
  expect(await replayed(open(6))).toEqual([...upTo(7, 1030), 'live'])
  expect(await replayed(open())).toEqual([...upTo(7, 1030), 'live'])
})

test('a cursor from another life of the host is told so; the tail’s own is not', async () => {
  const { emit, open } = setUp()
  emit(2)
  expect(await replayed(open(3))).toEqual(['dropped', 'live'])
  expect(await replayed(open(tailCursor))).toEqual(['live'])
  expect(await replayed(open(Number.POSITIVE_INFINITY))).toEqual(['dropped', 'live'])
})

test('the filter passes the kinds asked for and every control frame', async () => {
  const { emit, open } = setUp()
  emit(1020, tock)
  emit(5)
  const stream = open(0, 'test.tick')
  expect(await replayed(stream)).toEqual(['dropped', ...upTo(1021, 1025), 'live'])
  emit(1, tock)
  emit(1)
  expect(await stream.next()).toEqual(['1027'])
})

test('a reader who is 256 events behind stays, one more and the stream ends', async () => {
  const { emit, open } = setUp()
  const [close, tooSlow] = [open(), open()]
  expect([await replayed(close), await replayed(tooSlow)]).toEqual([['live'], ['live']])
  emit(256)
  await settled()
  expect(await close.next()).toEqual(upTo(1, 256))
  expect(close.isBehind()).toBe(false)
  // What has been handed over counts until the reader asks for more.
  emit(1)
  await settled()
  expect(await close.next()).toBe('end')
  expect(await tooSlow.next()).toBe('end')
  expect([close, tooSlow].map(stream => stream.isBehind())).toEqual([true, true])
})

test('events that the filter holds back do not make a reader slow', async () => {
  const { emit, open } = setUp()
  const stream = open(undefined, 'test.tick')
  await replayed(stream)
  emit(500, tock)
  emit(1)
  expect(await stream.next()).toEqual(['501'])
})

test('the heartbeat reaches readers who wait, and no others', async () => {
  const { emit, feed, open } = setUp()
  const stream = open()
  feed.heartbeat()
  expect(await replayed(stream)).toEqual(['live'])
  const quiet = stream.next()
  await settled()
  feed.heartbeat()
  expect(await quiet).toEqual([':'])
  emit(1)
  await settled()
  feed.heartbeat()
  expect(await stream.next()).toEqual(['1'])
})

test('32 streams at once; a place is free when its connection has gone, not before', async () => {
  const { feed, emit, open } = setUp()
  const streams = Array.from({ length: 32 }, () => open())
  expect(() => open()).toThrow(expect.objectContaining({ status: 503, message: 'too many event streams' }))
  emit(300)
  await settled()
  // All of them are closed as too slow by now, but nobody has hung up.
  expect(() => open()).toThrow('too many')
  streams[0]!.leave()
  expect(feed.size).toBe(31)
  expect(await replayed(open(300))).toEqual(['live'])
})

test('a reader who leaves while the stream waits ends it at once', async () => {
  const { feed, open } = setUp()
  const stream = open()
  await replayed(stream)
  const waiting = stream.next()
  await settled()
  stream.leave()
  expect(await waiting).toBe('end')
  expect(feed.size).toBe(0)
})

test('an event is made into text once for all streams', async () => {
  const { bus, emit } = setUp()
  emit(1)
  const record = bus.replay(0).events[0]!
  expect(frameOf(record)).toBe(`id: 1\nevent: test.tick\ndata: ${JSON.stringify(record)}\n\n`)
  const live: EventRecord[] = []
  bus.subscribe(each => void live.push(each))
  emit(1)
  await settled()
  expect(live[0]).toBe(bus.replay(1).events[0])
})

test('frames hold whatever text an event carries on one data line', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.anything()), fields => {
      const record = { ...fields, seq: 7, ts_ms: 1, schema: 1, kind: 'a.b' }
      fc.pre(!JSON.stringify(record, (_, v) => (typeof v === 'bigint' ? null : v)).includes('"toJSON"'))
      let frame: string
      try {
        frame = frameOf(record)
      } catch {
        return // Not JSON at all: the bus takes no such payload.
      }
      const lines = frame.split('\n')
      expect(lines).toHaveLength(5)
      expect(JSON.parse(lines[2]!.slice('data: '.length))).toMatchObject({ seq: 7, kind: 'a.b' })
    }),
  )
})

test('kinds: exact, domain.*, *, blanks, and nothing', () => {
  const passes = (list: string | undefined, kind: string) => kindFilter(list)(kind)
  expect(['', ' , ', undefined, '*', 'x.y, *'].map(list => passes(list, 'a.b'))).toEqual(Array(5).fill(true))
  expect(passes(' a.b ,c.*', 'a.b')).toBe(true)
  expect(passes('a.*', 'a.b')).toBe(true)
  expect(passes('a.*', 'a.b.c')).toBe(true)
  expect(['a.*', 'a', 'a.', 'A.B', '*.b', 'b.*'].map(list => passes(list, 'ab.b'))).toEqual(
    Array(6).fill(false),
  )
})

test('kinds: any list agrees with its plain meaning', () => {
  const word = fc.stringMatching(/^[a-c]{1,2}$/)
  const kind = fc.array(word, { minLength: 1, maxLength: 3 }).map(words => words.join('.'))
  const item = fc.oneof(
    kind,
    kind.map(k => `${k}.*`),
    fc.constantFrom('*', ''),
    fc.string(),
  )
  fc.assert(
    fc.property(fc.array(item), kind, (items, k) => {
      const list = items.join(',')
      const wanted = list
        .split(',')
        .map(each => each.trim())
        .filter(Boolean)
      const plainly = wanted.some(
        each => each === '*' || each === k || (each.endsWith('.*') && k.startsWith(each.slice(0, -1))),
      )
      expect(kindFilter(list)(k)).toBe(wanted.length === 0 || plainly)
    }),
  )
})

test('Last-Event-ID wins over since; what is no number is ignored', () => {
  expect(cursorOf('5', 9)).toBe(5)
  expect(cursorOf(' 5 ', undefined)).toBe(5)
  expect(cursorOf(undefined, 9)).toBe(9)
  fc.assert(
    fc.property(fc.string(), text => {
      fc.pre(!/^\d+$/.test(text.trim()))
      expect(cursorOf(text, 9)).toBe(9)
    }),
  )
})
