// The API: how soon a host answers after its start and what it holds when idle, requests beside a bare fastify, and how
// soon the last of many readers has an event.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { event } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { z } from 'zod'
import { type HostProcess, serve } from '../harness/host.ts'
import { cpuMs, median, percentile, residentMiB, type Target } from './measure.ts'
import { end, startReady } from './process.ts'

/** One server under load. */
interface Served {
  readonly perSecond: number[]
  readonly p99Ms: number[]
  readonly cpuUsPerRequest: number[]
}

export interface ApiResult {
  readonly healthyMs: readonly number[]
  readonly idleMiB: readonly number[]
  /** Built-ins that nobody requires, switched off and on over the API; what they set up themselves is in it. */
  readonly switches: readonly { readonly id: string; readonly offMs: number; readonly onMs: number }[]
  readonly ours: Served
  readonly bare: Served
  /** From the publishing of an event until the last of `readers` has it, milliseconds. */
  readonly readers: number
  readonly lastReaderMs: readonly number[]
}

const connections = 16

/** Asks over and over on one connection; every answer has a length, and there is never more than one under way. */
async function askOver(port: number, token: string, untilMs: number, tookMs: number[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const head = `GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`
  await new Promise<void>((resolve, reject) => {
    let [text, began] = ['', 0]
    const ask = () => {
      text = ''
      began = performance.now()
      socket.write(head)
    }
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part
      const at = text.indexOf('\r\n\r\n')
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
      if (at < 0 || text.length < at + 4 + Number(length)) return
      if (!text.startsWith('HTTP/1.1 200')) return reject(new Error(text.slice(0, 200)))
      tookMs.push(performance.now() - began)
      if (performance.now() < untilMs) ask()
      else resolve()
    })
    socket.on('error', reject).on('close', () => reject(new Error('the connection was closed')))
    ask()
  }).finally(() => socket.destroy())
}

async function load(into: Served, pid: number, port: number, token: string, seconds: number): Promise<void> {
  const round = async (ms: number): Promise<number[]> => {
    const tookMs: number[] = []
    const untilMs = performance.now() + ms
    await Promise.all(Array.from({ length: connections }, () => askOver(port, token, untilMs, tookMs)))
    return tookMs
  }
  await round(500)
  const [cpuBefore, from] = [cpuMs(pid), performance.now()]
  const tookMs = await round(seconds * 1000)
  into.perSecond.push((tookMs.length * 1000) / (performance.now() - from))
  into.p99Ms.push(percentile(tookMs, 0.99))
  into.cpuUsPerRequest.push(((cpuMs(pid) - cpuBefore) * 1000) / tookMs.length)
}

const Ticked = event('bench.ticked', z.object({ n: z.number() }))

async function benchReaders(readers: number, times: number): Promise<number[]> {
  const host = await startHost({ extensions: ['events'] })
  const lastMs: number[] = []
  let [waiting, began] = [0, 0]
  let told = () => {}
  try {
    for (let i = 0; i < readers; i++) {
      const answer = await host.open('GET', '/events?kinds=bench.*')
      answer.setEncoding('utf8').on('data', (text: string) => {
        if (text.includes('bench.ticked') && --waiting === 0) told()
      })
    }
    for (let n = 0; n < times; n++) {
      const all = new Promise<void>(resolve => (told = resolve))
      waiting = readers
      began = performance.now()
      host.emit(Ticked, { n })
      await all
      lastMs.push(performance.now() - began)
      await sleep(5)
    }
  } finally {
    await host.stop()
  }
  return lastMs
}

async function benchSwitches(host: HostProcess, rounds: number): Promise<ApiResult['switches']> {
  const all: { id: string; state: string; provides: string[]; requires: string[] }[] = (
    await host.api('GET', '/extensions')
  ).body.extensions
  const nameOf = (service: string) => service.split('@')[0]!
  const needed = new Set(all.flatMap(({ requires }) => requires.map(nameOf)))
  const leaves = all.filter(
    ({ state, provides }) => state === 'on' && !provides.some(service => needed.has(nameOf(service))),
  )
  const timed = async (id: string, enabled: boolean): Promise<number> => {
    const began = performance.now()
    const { status } = await host.api('PUT', `/extensions/${id}`, { enabled })
    if (status !== 200) throw new Error(`switching ${id} answered ${status}`)
    return performance.now() - began
  }
  const switches: { id: string; offMs: number; onMs: number }[] = []
  for (const { id } of leaves) {
    const [off, on]: number[][] = [[], []]
    for (let round = 0; round < rounds; round++) {
      off!.push(await timed(id, false))
      on!.push(await timed(id, true))
    }
    switches.push({ id, offMs: median(off!), onMs: median(on!) })
  }
  return switches
}

export async function benchApi(
  rounds: number,
  seconds: number,
  say: (line: string) => void,
): Promise<ApiResult> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const configDir = join(folder, 'config')
  const [healthyMs, idleMiB]: number[][] = [[], []]
  const served = (): Served => ({ perSecond: [], p99Ms: [], cpuUsPerRequest: [] })
  const [ours, bare] = [served(), served()]
  let switches: ApiResult['switches'] = []
  let host: HostProcess | undefined
  try {
    // The first start makes keys and fills the caches; it is not what is measured.
    await (await serve({ configDir })).stop()
    for (let round = 0; round < 2 * rounds; round++) {
      const began = performance.now()
      host = await serve({ configDir })
      healthyMs!.push(performance.now() - began)
      await sleep(2000)
      idleMiB!.push(residentMiB(host.pid))
      say(`healthy after ${healthyMs!.at(-1)!.toFixed(0)} ms, idle with ${idleMiB!.at(-1)!.toFixed(0)} MiB`)
      if (round < 2 * rounds - 1) await host.stop()
    }
    switches = await benchSwitches(host!, rounds)
    const { pid, mgmtPort } = host!
    const token = readFileSync(join(configDir, 'mgmt-token'), 'utf8').trim().split('=').at(-1)!
    const { paths, components } = (await host!.api('GET', '/openapi.json')).body
    const { schema } = paths['/api/v1/status'].get.responses[200].content['application/json']
    const answer = (await host!.api('GET', '/status')).body
    const about = join(folder, 'bare.json')
    writeFileSync(about, JSON.stringify({ answer, schema: { ...schema, components } }))
    const program = fileURLToPath(new URL('bare-api.ts', import.meta.url))
    const pems = ['native-cert.pem', 'native-key.pem'].map(name => join(configDir, name))
    const peer = await startReady(process.execPath, ['--no-warnings', program, ...pems, about], {})
    try {
      for (let round = 0; round < rounds; round++) {
        await load(ours, pid, mgmtPort, token, seconds)
        await load(bare, peer.pid!, Number(peer.lines()[0]), '', seconds)
        say(`requests/s: ${ours.perSecond.at(-1)!.toFixed(0)}, bare ${bare.perSecond.at(-1)!.toFixed(0)}`)
      }
    } finally {
      await end(peer)
    }
  } finally {
    await host?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  const readers = 32
  const lastReaderMs = await benchReaders(readers, 300)
  say(`an event is with the last of ${readers} readers after ${percentile(lastReaderMs, 0.99).toFixed(1)} ms`)
  return { healthyMs: healthyMs!, idleMiB: idleMiB!, switches, ours, bare, readers, lastReaderMs }
}

export function apiReport(result: ApiResult): { rows: string[][]; targets: Target[] } {
  const { healthyMs, idleMiB, switches, ours, bare, readers, lastReaderMs } = result
  const slowest = switches.toSorted((a, b) => b.offMs + b.onMs - a.offMs - a.onMs)
  const row = (name: string, { perSecond, p99Ms, cpuUsPerRequest }: Served) => [
    name,
    median(perSecond).toFixed(0),
    median(p99Ms).toFixed(1),
    median(cpuUsPerRequest).toFixed(0),
  ]
  const p99 = percentile(lastReaderMs, 0.99)
  return {
    rows: [
      [`GET /status over TLS, ${connections} connections`, 'requests/s', 'p99 ms', 'CPU µs each'],
      row('svc-host: lanes, schemas, status of all planes', ours),
      row('bare fastify, one answer by the same schema', bare),
      ['switched off and on, setup included', 'off ms', 'on ms', ''],
      ...slowest.slice(0, 4).map(({ id, offMs, onMs }) => [id, offMs.toFixed(1), onMs.toFixed(1), '']),
    ],
    targets: [
      { what: 'healthy after a start, ms', measured: median(healthyMs), atMost: 700 },
      { what: 'resident when idle, MiB', measured: median(idleMiB), atMost: 170 },
      {
        what: `switching one of ${switches.length} built-ins, ms`,
        measured: median(switches.flatMap(({ offMs, onMs }) => [offMs, onMs])),
        atMost: 50,
      },
      {
        what: 'requests/s of a bare fastify over ours',
        measured: median(bare.perSecond) / median(ours.perSecond),
        atMost: 1 / 0.85,
      },
      { what: `event with the last of ${readers} readers p99, ms`, measured: p99, atMost: 10 },
    ],
  }
}
