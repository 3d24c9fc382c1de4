// The control plane at work: the longest gap between pictures while requests are answered or packages come and go, and
// while nothing of that happens.
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type HostProcess, until } from '../harness/host.ts'
import { packFolder, writePackage } from '../harness/packages.ts'
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

/** What goes on in a storm. */
export interface Disturbance {
  readonly name: string
  /** One turn of it; resolves to how much of it failed. */
  run(): Promise<number>
}

export interface StormResult {
  readonly name: string
  readonly failed: number
  readonly quiet: Gaps
  readonly storm: Gaps
}

/** Storm and quiet take turns, each as long as the other, so that a noisy neighbour strikes both. */
const turns = 4

const paths = ['/status', '/health', '/plugins', '/display/state', '/sessions', '/openapi.json']

export const requestsTo = (host: HostProcess, requests: number): Disturbance => ({
  name: `${requests} requests`,
  run: () => ask(host, Math.ceil(requests / turns)),
})

/** A stranger's package, installed, started in an isolate and removed again, `times` in each turn. */
export async function packagesOn(host: HostProcess, folder: string, times: number): Promise<Disturbance> {
  const made = writePackage(folder, 'passing', { realm: 'isolate', importsSdk: true })
  const spec = `file:${await packFolder(made, join(folder, 'passing.tgz'))}`
  const operate = async (verb: string, body: object): Promise<void> => {
    const { job } = (await host.api('POST', `/store/${verb}`, body)).body
    await until(
      verb,
      async () => (await host.api('GET', `/store/jobs/${job}`)).body.state !== 'running',
      60_000,
    )
  }
  const isOn = async () =>
    (await host.api('GET', '/extensions')).body.extensions.some(
      (each: { id: string; state: string }) => each.id === 'passing' && each.state === 'on',
    )
  return {
    name: `${turns * times} packages that come and go`,
    async run() {
      let failed = 0
      for (let i = 0; i < times; i++) {
        await operate('install', { spec, accept_unverified: true, grant: 'all' })
        if (!(await isOn())) failed++
        await operate('uninstall', { pkg: 'svc-plugin-passing' })
      }
      return failed
    },
  }
}

async function ask(host: HostProcess, requests: number): Promise<number> {
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
  disturbance: Disturbance,
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
        failed += await disturbance.run()
        const endedUs = monotonicUs()
        storms.push([stormUs, endedUs])
        say(`${disturbance.name}, turn ${turn + 1}: ${((endedUs - stormUs) / 1e6).toFixed(1)} s`)
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
      return {
        name: disturbance.name,
        failed,
        quiet: gaps(arrived, drawn, quiets),
        storm: gaps(arrived, drawn, storms),
      }
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
      row(`during ${result.name} (${result.failed} failed)`, result.storm),
      row('without', result.quiet),
    ],
    targets: [
      {
        what: `longest gap during ${result.name} more than without, ms`,
        measured: result.storm.longestMs - result.quiet.longestMs,
        atMost: 1000 / mode.hz,
      },
    ],
  }
}
