// The control plane under load: the longest gap between pictures while 2,000 requests are answered, and without them.
import { setTimeout as sleep } from 'node:timers/promises'
import type { HostProcess } from '../harness/host.ts'
import type { AccessUnit } from './access-units.ts'
import { monotonicUs, percentile, type Target } from './measure.ts'
import { end, startReady } from './process.ts'
import { type Mode, modeName, type Ours, openStage, settle } from './stage.ts'

export interface Gaps {
  readonly longestMs: number
  readonly p99Ms: number
  readonly seconds: number
}

export interface StormResult {
  readonly requests: number
  readonly failed: number
  readonly quiet: Gaps
  readonly storm: Gaps
}

const paths = ['/status', '/health', '/plugins', '/display/state', '/sessions', '/openapi.json']

async function storm(host: HostProcess, requests: number): Promise<number> {
  let [next, failed] = [0, 0]
  const client = async () => {
    while (next < requests) {
      const { status } = await host.api('GET', paths[next++ % paths.length]!).catch(() => ({ status: 599 }))
      if (status >= 500) failed++
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  return failed
}

function gaps(units: readonly AccessUnit[], fromUs: number, toUs: number): Gaps {
  const times = units.map(({ lastUs }) => lastUs).filter(us => us >= fromUs && us < toUs)
  const between = times.slice(1).map((us, i) => (us - times[i]!) / 1000)
  return {
    longestMs: Math.max(...between),
    p99Ms: percentile(between, 0.99),
    seconds: (toUs - fromUs) / 1e6,
  }
}

/** The quiet stretch is as long as the storm was, in the same session, right after it. */
export async function benchStorm(
  ours: Ours,
  player: string,
  mode: Mode,
  requests: number,
): Promise<StormResult> {
  const stage = await openStage(ours, 'svc-host', mode, true)
  try {
    const moving = await startReady(player, ['--hz', String(mode.hz)], stage.env)
    try {
      await settle()
      const stormUs = monotonicUs()
      const failed = await storm(ours.host, requests)
      const endedUs = monotonicUs()
      await sleep(1000)
      const quietUs = monotonicUs()
      await sleep((endedUs - stormUs) / 1000)
      const doneUs = monotonicUs()
      const units = await stage.heard()
      return { requests, failed, quiet: gaps(units, quietUs, doneUs), storm: gaps(units, stormUs, endedUs) }
    } finally {
      await end(moving)
    }
  } finally {
    await stage.close()
  }
}

export function stormReport(mode: Mode, result: StormResult): { rows: string[][]; targets: Target[] } {
  const row = (name: string, g: Gaps) => [
    name,
    modeName(mode),
    g.longestMs.toFixed(1),
    g.p99Ms.toFixed(1),
    g.seconds.toFixed(1),
  ]
  return {
    rows: [
      ['Gaps between pictures', 'mode', 'longest ms', 'p99 ms', 'seconds'],
      row(`during ${result.requests} requests (${result.failed} failed)`, result.storm),
      row('without', result.quiet),
    ],
    targets: [
      {
        what: 'longest gap under the API storm more than without, ms',
        measured: result.storm.longestMs - result.quiet.longestMs,
        atMost: 1000 / mode.hz,
      },
    ],
  }
}
