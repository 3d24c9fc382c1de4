// The control plane under load: the longest gap between pictures while 2,000 requests are answered, and without them.
import { getPriority, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HostProcess } from '../harness/host.ts'
import { monotonicUs, percentile, type Target } from './measure.ts'
import { end, startReady } from './process.ts'
import { type Mode, modeName, type Ours, openStage, settle } from './stage.ts'

export interface Gaps {
  /** Between pictures that arrived. */
  readonly longestMs: number
  readonly p99Ms: number
  /** Between pictures that were drawn: when the player itself was held up, the stream cannot be blamed. */
  readonly drawnLongestMs: number
  readonly seconds: number
}

export interface StormResult {
  readonly requests: number
  readonly failed: number
  readonly quiet: Gaps
  readonly storm: Gaps
}

/** Storm and quiet take turns, each as long as the other, so that a noisy neighbour strikes both. */
const turns = 4

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

type Stretch = readonly [fromUs: number, toUs: number]

function gaps(arrivedUs: readonly number[], drawnUs: readonly number[], stretches: readonly Stretch[]): Gaps {
  const between = (times: readonly number[]) =>
    stretches.flatMap(([from, to]) => {
      const inside = times.filter(us => us >= from && us < to)
      return inside.slice(1).map((us, i) => (us - inside[i]!) / 1000)
    })
  const arrived = between(arrivedUs)
  return {
    longestMs: Math.max(...arrived),
    p99Ms: percentile(arrived, 0.99),
    drawnLongestMs: Math.max(...between(drawnUs)),
    seconds: stretches.reduce((sum, [from, to]) => sum + to - from, 0) / 1e6,
  }
}

export async function benchStorm(
  ours: Ours,
  player: string,
  mode: Mode,
  requests: number,
  say: (line: string) => void,
): Promise<StormResult> {
  const stage = await openStage(ours, 'svc-host', mode, true)
  try {
    const moving = await startReady(player, ['--hz', String(mode.hz), '--times'], stage.env)
    // The source must keep its time, and those who ask are other machines in life: neither may be what is measured.
    const ownPriority = getPriority()
    try {
      setPriority(moving.pid as number, -15)
      setPriority(10)
      await settle()
      const [storms, quiets]: [Stretch[], Stretch[]] = [[], []]
      let failed = 0
      for (let turn = 0; turn < turns; turn++) {
        const stormUs = monotonicUs()
        failed += await storm(ours.host, Math.ceil(requests / turns))
        const endedUs = monotonicUs()
        storms.push([stormUs, endedUs])
        say(`storm ${turn + 1}: ${((endedUs - stormUs) / 1e6).toFixed(1)} s`)
        await sleep(500)
        const quietUs = monotonicUs()
        await sleep((endedUs - stormUs) / 1000)
        quiets.push([quietUs, monotonicUs()])
      }
      const arrived = (await stage.heard()).map(({ lastUs }) => lastUs)
      const drawn = moving
        .lines()
        .map(line => Number(line.match(/^shown \d+ (\d+)$/)?.[1]) / 1000)
        .filter(us => us > 0)
      return { requests, failed, quiet: gaps(arrived, drawn, quiets), storm: gaps(arrived, drawn, storms) }
    } finally {
      setPriority(ownPriority)
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
    g.drawnLongestMs.toFixed(1),
    g.seconds.toFixed(1),
  ]
  return {
    rows: [
      ['Gaps between pictures', 'mode', 'longest ms', 'p99 ms', 'longest as drawn ms', 'seconds'],
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
