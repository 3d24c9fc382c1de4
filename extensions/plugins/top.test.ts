// `svc-host plugins top`: rates from samples, pictures that fit, and what a running host really shows.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { ExtensionRecord } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { expect, test } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { writePackage } from '../../test/harness/packages.ts'
import { picture, rowsOf, type Sample, watchTop } from './top.ts'

const record = (id: string, more: Partial<ExtensionRecord> = {}): ExtensionRecord => ({
  ...{
    id,
    title: id,
    version: '1.0.0',
    realm: 'isolate',
    builtin: false,
    enabled: true,
    state: 'on',
    why: null,
  },
  ...{ provides: [], requires: [], effects: [], errors: 0, restarts: 0, cpu_ms: 0, memory_bytes: 0 },
  ...{ taps: [], permissions: [], budget: 'ok' },
  ...more,
})
const sample = (atUnixMs: number, ...records: ExtensionRecord[]): Sample => ({ atUnixMs, records })

test('rates are of the time between two looks and of the last minute; what cannot be told is no number', () => {
  const taps = [
    { hook: 'a', calls: 3, p50_ms: 1, p99_ms: 9 },
    { hook: 'b', calls: 4, p50_ms: 2, p99_ms: null },
  ]
  const samples = [
    sample(0, record('busy', { errors: 1 })),
    sample(30_000, record('busy', { errors: 5, cpu_ms: 100 })),
    sample(61_000, record('busy', { errors: 8, cpu_ms: 1000 })),
    sample(
      62_000,
      record('idle', { cpu_ms: null, memory_bytes: null }),
      record('busy', { errors: 9, cpu_ms: 1250, taps }),
    ),
  ]
  const [busy, idle] = rowsOf(samples, 'cpu')
  expect(busy).toMatchObject({
    id: 'busy',
    cpu_percent: 25,
    errors_per_minute: 4,
    hook_calls: 7,
    p50_ms: 2,
    p99_ms: 9,
  })
  expect(idle).toMatchObject({ id: 'idle', cpu_percent: null, memory_bytes: null, p50_ms: null })
  expect(rowsOf(samples, 'id').map(({ id }) => id)).toEqual(['busy', 'idle'])
  // The host began anew, and the clock went back.
  const [anew] = rowsOf([...samples, sample(61_500, record('busy', { cpu_ms: 3 }))], 'cpu')
  expect(anew).toMatchObject({ cpu_percent: 0, errors_per_minute: 0 })
})

test('a picture fits its terminal, whatever it shows, and holds nothing that a terminal would obey', () => {
  const anyRecord = fc.record({
    id: fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
    state: fc.constantFrom('on' as const, 'failed' as const, 'quarantined' as const),
    why: fc.string({ unit: 'binary', maxLength: 200 }),
    errors: fc.nat(),
    restarts: fc.nat(),
    cpu_ms: fc.option(fc.nat()),
    memory_bytes: fc.option(fc.nat()),
    taps: fc.array(
      fc.record({
        hook: fc.constant('h'),
        calls: fc.nat(),
        p50_ms: fc.float({ min: 0, noNaN: true }),
        p99_ms: fc.constant(null),
      }),
      { maxLength: 2 },
    ),
  })
  const size = fc.record({
    width: fc.integer({ min: 80, max: 200 }),
    height: fc.integer({ min: 6, max: 50 }),
  })
  fc.assert(
    fc.property(fc.array(anyRecord, { maxLength: 30 }), size, (given, { width, height }) => {
      const records = given.map(({ id, ...more }) => record(id, more))
      const rows = rowsOf([sample(0, ...records), sample(1000, ...records)], 'cpu')
      const lines = picture(rows, { key: 'cpu', width, height, isLive: true }, (_, text) => text)
      expect(lines.length).toBeLessThan(height)
      for (const line of lines) {
        expect(line.length).toBeLessThanOrEqual(width)
        expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
      }
    }),
    { numRuns: 30 },
  )
})

test('it goes on through a host that does not answer, and ends when it is told to', async () => {
  const ended = new AbortController()
  const seen: (string | undefined)[] = []
  let looks = 0
  await watchTop({
    async look() {
      looks += 1
      if (looks === 2) throw new Error('no answer')
      return [record('busy')]
    },
    intervalMs: 1,
    signal: ended.signal,
    show(samples, trouble) {
      seen.push(trouble)
      expect(samples.at(-1)!.records).toHaveLength(1)
      if (looks === 3) ended.abort()
    },
  })
  expect(seen).toEqual([undefined, 'no answer', undefined])
})

test('a busy isolate is the first line of a running host', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'svc-top-'))
  const main = `
    import { defineExtension } from 'svc-host/sdk'
    export default defineExtension({ setup() {
      setInterval(() => { for (const end = Date.now() + 20; Date.now() < end; ); }, 100)
    } })`
  const folder = writePackage(parent, 'busy', { realm: 'isolate', main })
  const host = await startHost({ extensions: ['plugins', folder] })
  try {
    const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', 'top', ...argv)
    const { v, data } = JSON.parse((await type('--once', '--json')).out)
    expect(v).toBe(1)
    expect(data.extensions[0]).toMatchObject({ id: 'busy', state: 'on', restarts: 0, budget: 'ok' })
    expect(data.extensions[0].cpu_percent).toBeGreaterThan(0)
    expect((await type()).out).toMatch(/^2 of 2 on, sorted by cpu\nID +STATE .*\nbusy +on /)
    expect(await type('--interval', '0')).toMatchObject({ code: 2 })
  } finally {
    await host.stop()
    rmSync(parent, { recursive: true })
  }
  expect(await typeAt(host.configDir, 'plugins', 'top', '--once')).toMatchObject({ code: 3 })
}, 60_000)
