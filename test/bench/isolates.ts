// Extensions in isolates: what a call to one takes beside a bare echo, how soon one runs, what a hundred of them hold in
// memory, and how soon the others are back when one brings their process down.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineExtension, hook } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { until } from '../harness/host.ts'
import { descendantsOf, median, percentile, proportionalMiB, type Target } from './measure.ts'
import { end } from './process.ts'

export interface IsolatesResult {
  /** Microseconds. */
  readonly tapsUs: readonly number[]
  readonly echoesUs: readonly number[]
  /** Each switch of one extension, setup and publishing included, milliseconds. */
  readonly onMs: readonly number[]
  readonly offMs: readonly number[]
  /** All sandbox processes once they are at rest, MiB; `crowd` extensions are in them. */
  readonly crowd: number
  readonly startedMiB: number
  readonly restingMiB: number
  /** From the end of the shared process until the last neighbour is on, milliseconds; `neighbours` of them each time. */
  readonly neighbours: number
  readonly backMs: readonly number[]
}

const Judge = hook.waterfall<{ score: number }>('bench.judge', { onFailure: 'skip' })
const Fall = hook.waterfall<{ score: number }>('bench.fall', { onFailure: 'skip' })

/** As an author would write it: a config, a route with schemas, a tap. */
const guest = (id: string): string => `import { defineExtension, hook, route } from 'svc-host/sdk'
import { z } from 'zod'
const Greeting = z.object({ hello: z.string(), count: z.number().int().min(0) })
export default defineExtension({
  config: z.object({ greeting: z.string().default('world') }),
  setup(ctx) {
    ctx.tap(hook.waterfall('bench.judge', { onFailure: 'skip' }), ({ score }) => ({ score: score + 1 }))
    ctx.route(route({ method: 'GET', path: '/ext/${id}', id: 'get${id}', summary: 'Say hello',
      lanes: { plugin: false, device: false }, replies: { 200: Greeting },
      handler: () => ({ hello: ctx.config.greeting, count: 1 }) }))
  },
})`
const bomb = `import { defineExtension, hook } from 'svc-host/sdk'
export default defineExtension({
  setup(ctx) {
    ctx.tap(hook.waterfall('bench.fall', { onFailure: 'skip' }), () => {
      for (let n = 2n; ; ) n *= n
    })
  },
})`

/** A host in this process with these packages, and the ways to their taps. */
async function stand(packages: Readonly<Record<string, string>>) {
  const root = await mkdtemp(join(tmpdir(), 'svc-bench-'))
  const about = { version: '1.0.0', sdk: '^1.0.0', realm: 'isolate', main: 'index.js' }
  const permissions = ['hooks:bench.*', 'routes']
  for (const [id, code] of Object.entries(packages)) {
    await mkdir(join(root, id))
    await writeFile(
      join(root, id, 'extension.json'),
      JSON.stringify({ id, title: id, ...about, permissions }),
    )
    await writeFile(join(root, id, 'index.js'), code)
  }
  let judge = async (input: { score: number }) => input
  let fall = judge
  const table: InlineExtension = {
    manifest: { id: 'table' },
    extension: defineExtension({
      setup(ctx) {
        judge = ctx.hookPoint(Judge)
        fall = ctx.hookPoint(Fall)
      },
    }),
  }
  const folders = Object.keys(packages).map(id => join(root, id))
  const host = await startHost({ extensions: [table, ...folders] })
  // On a machine that is too busy a crowd does not start within the time limits at once.
  for (const { id, state } of host.extensions.list())
    if (state === 'failed') await host.extensions.enable(id, true)
  const idle = host.extensions.list().find(({ state }) => state !== 'on')
  if (idle) throw new Error(`${idle.id} is ${idle.state}: ${idle.why}`)
  const stop = async () => {
    await host.stop()
    await rm(root, { recursive: true, force: true })
  }
  return { host, judge, fall, stop }
}

/** A child that gives back what it reads, over the pair of sockets that every child's pipes are. */
const startEcho = (): ChildProcess => {
  const code = `const { readSync, writeSync } = require('node:fs'), bytes = Buffer.alloc(65536)
for (let n; (n = readSync(0, bytes)) > 0; ) writeSync(1, bytes, 0, n)`
  return spawn(process.execPath, ['-e', code], { stdio: ['pipe', 'pipe', 'inherit'] })
}

async function times(count: number, call: () => Promise<unknown>): Promise<number[]> {
  const us: number[] = []
  for (let i = 0; i < count; i++) {
    const began = performance.now()
    await call()
    us.push((performance.now() - began) * 1000)
  }
  return us
}

async function benchCalls(
  rounds: number,
): Promise<Pick<IsolatesResult, 'tapsUs' | 'echoesUs' | 'onMs' | 'offMs'>> {
  const { host, judge, stop } = await stand({ guest: guest('guest'), other: guest('other') })
  const echo = startEcho()
  const [tapsUs, echoesUs, onMs, offMs]: number[][] = [[], [], [], []]
  try {
    const tap = () => judge({ score: 1 })
    const bytes = Buffer.alloc(64, 'x')
    const bounce = () => {
      const back = once(echo.stdout!, 'data')
      echo.stdin!.write(bytes)
      return back
    }
    await host.extensions.enable('other', false)
    await times(3000, tap)
    await times(3000, bounce)
    for (let round = 0; round < rounds; round++) {
      echoesUs!.push(...(await times(1500, bounce)))
      tapsUs!.push(...(await times(1500, tap)))
    }
    for (let i = 0; i < 5 * rounds; i++) {
      for (const [enabled, list] of [[true, onMs!] as const, [false, offMs!] as const]) {
        const [us] = await times(1, () => host.extensions.enable('other', enabled))
        list.push(us! / 1000)
        await sleep(20)
      }
    }
    return { tapsUs: tapsUs!, echoesUs: echoesUs!, onMs: onMs!, offMs: offMs! }
  } finally {
    await end(echo)
    await stop()
  }
}

const memoryOfChildren = (): number =>
  descendantsOf(process.pid).reduce((sum, pid) => sum + proportionalMiB(pid), 0)

/** Isolates at rest are collected a few in each second, and fewer on a busy machine. */
async function settled(): Promise<number> {
  let [least, at] = [memoryOfChildren(), performance.now()]
  for (
    const from = at;
    performance.now() - at < 12_000 && performance.now() - from < 120_000;
    await sleep(1000)
  ) {
    const now = memoryOfChildren()
    if (now > least - 0.3) continue
    least = now
    at = performance.now()
  }
  return least
}

async function benchCrowd(crowd: number) {
  const ids = Array.from({ length: crowd }, (_, i) => `guest-${i}`)
  const { stop } = await stand(Object.fromEntries(ids.map(id => [id, guest(id)])))
  try {
    return { crowd, startedMiB: memoryOfChildren(), restingMiB: await settled() }
  } finally {
    await stop()
  }
}

const isWhole = (host: TestHost): boolean =>
  host.extensions.list().every(({ id, state }) => id === 'bomb' || state === 'on')

async function benchNeighbours(neighbours: number, rounds: number) {
  const ids = Array.from({ length: neighbours }, (_, i) => `guest-${i}`)
  const backMs: number[] = []
  for (let round = 0; round < rounds; round++) {
    const { host, fall, stop } = await stand({ ...Object.fromEntries(ids.map(id => [id, guest(id)])), bomb })
    try {
      const falling = fall({ score: 1 }).catch(() => {})
      await until('the fall', () => !isWhole(host))
      const from = performance.now()
      await until('the neighbours', () => isWhole(host), 60_000)
      backMs.push(performance.now() - from)
      await falling
    } finally {
      await stop()
    }
  }
  return { neighbours, backMs }
}

export async function benchIsolates(rounds: number, say: (line: string) => void): Promise<IsolatesResult> {
  const calls = await benchCalls(rounds)
  const p50 = (values: readonly number[]) => percentile(values, 0.5).toFixed(0)
  say(`isolates: tap p50 ${p50(calls.tapsUs)} µs, echo ${p50(calls.echoesUs)} µs, on ${p50(calls.onMs)} ms`)
  const crowd = await benchCrowd(100)
  say(`${crowd.crowd} isolates: ${crowd.startedMiB.toFixed(0)} MiB, at rest ${crowd.restingMiB.toFixed(0)}`)
  const back = await benchNeighbours(16, rounds)
  say(`neighbours back after ${back.backMs.map(ms => ms.toFixed(0)).join(', ')} ms`)
  return { ...calls, ...crowd, ...back }
}

export function isolatesReport(result: IsolatesResult): { rows: string[][]; targets: Target[] } {
  const { tapsUs, echoesUs, onMs, offMs, crowd, startedMiB, restingMiB, neighbours, backMs } = result
  const row = (what: string, unit: string, values: readonly number[]) => [
    what,
    unit,
    percentile(values, 0.5).toFixed(1),
    percentile(values, 0.99).toFixed(1),
    String(values.length),
  ]
  const tap = percentile(tapsUs, 0.5)
  return {
    rows: [
      ['Extensions in isolates', 'unit', 'p50', 'p99', 'times'],
      row('a tap, from the hook point and back', 'µs', tapsUs),
      row('an echo over a bare pair of sockets', 'µs', echoesUs),
      row('switched on', 'ms', onMs),
      row('switched off', 'ms', offMs),
      row(`${neighbours} neighbours back after a fall`, 'ms', backMs),
      [`${crowd} of them, at once`, 'MiB', startedMiB.toFixed(0), '', ''],
      [`${crowd} of them, at rest`, 'MiB', restingMiB.toFixed(0), '', ''],
    ],
    targets: [
      { what: 'tap through the sandbox p50, µs', measured: tap, atMost: 150 },
      { what: 'tap over a bare echo', measured: tap / percentile(echoesUs, 0.5), atMost: 3 },
      { what: 'start in a warm sandbox, ms', measured: median(onMs), atMost: 30 },
      { what: 'isolate switched off, ms', measured: median(offMs), atMost: 50 },
      { what: `${crowd} isolates at rest, MiB`, measured: restingMiB, atMost: 400 },
      { what: `${neighbours} neighbours back, ms`, measured: median(backMs), atMost: 1000 },
    ],
  }
}
