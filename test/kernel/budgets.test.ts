// Budgets with real isolates: whoever goes on beyond one is slowed down, then given up with the sentence why; the others go on.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { defineExtension, hook } from 'svc-host/sdk'
import { afterAll, expect, test } from 'vitest'
import { Manifest, readExtension } from '../../kernel/discover.ts'
import { startHost } from '../../kernel/index.ts'
import { defaultBudgets, overdrawn, type Sample } from '../../kernel/realms/budgets.ts'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
afterAll(() => guests.remove())

const Ask = hook.series<number>('crowd.ask', { onFailure: 'skip', limitMs: 300 })
let ask: (input: number) => Promise<undefined>
const crowd = {
  id: 'crowd',
  folder: '/',
  builtin: true,
  manifest: Manifest.parse({ id: 'crowd', version: '1.0.0', sdk: '^1.0.0', title: 'c', realm: 'kernel' }),
  load: async () =>
    defineExtension({
      setup(ctx) {
        ask = ctx.hookPoint(Ask)
      },
    }) as never,
}
const tap = (body: string): string =>
  `ctx.tap(hook.series('crowd.ask', { onFailure: 'skip', limitMs: 300 }), ${body})`
const spin = '{ const until = Date.now() + 30; while (Date.now() < until); }'
const setups: Record<string, string> = {
  careless: `setInterval(() => { void Promise.reject(new Error('again')) }, 60)`,
  busy: `setInterval(() => ${spin}, 5)`,
  hoarder: 'globalThis.kept = new Uint8Array(40 * 2 ** 20)',
  late: tap('() => new Promise(done => setTimeout(done, 600))'),
  calm: 'setInterval(() => {}, 100)',
}

test('whoever goes beyond a budget is slowed down, then quarantined with the sentence why', {
  timeout: 60_000,
}, async () => {
  const configDir = await mkdtemp(join(tmpdir(), 'svc-budgets-'))
  const folders = await Promise.all(Object.entries(setups).map(([id, body]) => guests.setup(id, body)))
  const logged: { extension: string; msg: string }[] = []
  const host = await startHost({
    configDir,
    found: [crowd, ...(await Promise.all(folders.map(folder => readExtension(folder, undefined, true))))],
    flags: { 'mgmt-bind': '127.0.0.1:0' },
    env: {},
    budgets: {
      windowMs: 1200,
      errors: 5,
      lateTaps: 1,
      load: Number.POSITIVE_INFINITY,
      cpuPart: 0.5,
      memoryPart: 0.5,
    },
    sink: { write: line => void logged.push(JSON.parse(line)) },
    isEmbedded: true,
  })
  const of = (id: string) => host.extensions.list().find(record => record.id === id)!
  const budgets = new Set<string>()
  const whys = () =>
    Object.keys(setups).map(id => {
      budgets.add(`${id} ${of(id).budget}`)
      return `${id} ${of(id).state}: ${of(id).why}`
    })
  let isOver = false
  const asking = (async () => {
    for (let i = 0; !isOver; i++) await Promise.all([ask(i), delay(50)])
  })()
  try {
    const end = ', and it went on when it was slowed down; switch it on to try again$'
    await expect.poll(whys, { timeout: 30_000 }).toEqual([
      expect.stringMatching(
        `^careless quarantined: made \\d+ errors within \\d s, where 5 are allowed${end}`,
      ),
      expect.stringMatching(
        `^busy quarantined: took \\d+ % of a processor within \\d s, where \\d+ % are allowed${end}`,
      ),
      // Collecting garbage takes time, too.
      expect.stringMatching(
        `^hoarder quarantined: (holds \\d+ MB of memory, where 32 MB|took .*) are allowed${end}`,
      ),
      expect.stringMatching(
        `^late quarantined: was late at hook points \\d+ times within \\d s, where 1 are allowed${end}`,
      ),
      'calm on: null',
    ])
    const warned = logged.filter(({ msg }) => msg.endsWith('; it is slowed down, and given up if it goes on'))
    expect(warned.map(({ extension }) => extension)).toEqual(
      expect.arrayContaining(['careless', 'busy', 'hoarder', 'late']),
    )
    expect([...budgets]).toEqual(
      expect.arrayContaining(['busy ok', 'busy slowed', 'calm ok', 'hoarder slowed']),
    )
    // It stays so over a start, until the operator says otherwise.
    expect(JSON.parse(await readFile(join(configDir, 'extensions.json'), 'utf8')).quarantined).toHaveProperty(
      'busy',
    )
    expect(await host.extensions.enable('careless', true)).toMatchObject({ state: 'on', why: null })
  } finally {
    isOver = true
    await asking
    await host.stop()
    await rm(configDir, { recursive: true })
  }
})

test('a window that was cut short or drawn out by a sleeping machine is judged by its length', () => {
  const most = { mostCpu: 0.25, mostBytes: 64 * 2 ** 20 }
  const none: Sample = { errors: 0, lateTaps: 0, cpuMs: 0, memoryBytes: 0, ...most }
  const judge = (now: Partial<Sample>, elapsedMs = 60_000) =>
    overdrawn(none, { ...none, ...now }, elapsedMs, defaultBudgets)
  expect(judge({ errors: 300, lateTaps: 30, cpuMs: 12_000, memoryBytes: 57 * 2 ** 20 })).toBeUndefined()
  expect(judge({ errors: 301 })).toBe('made 301 errors within 60 s, where 300 are allowed')
  expect(judge({ errors: 301 }, 120_000)).toBeUndefined()
  expect(judge({ lateTaps: 31 })).toBe('was late at hook points 31 times within 60 s, where 30 are allowed')
  expect(judge({ cpuMs: 13_000 })).toBe('took 22 % of a processor within 60 s, where 20 % are allowed')
  expect(judge({ memoryBytes: 60 * 2 ** 20 })).toBe('holds 60 MB of memory, where 58 MB are allowed')
})
