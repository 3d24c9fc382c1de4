// Flash to wire: from a change of the screen at a known instant to the arrival of the last datagram of the first
// picture that shows it. One tap hears every pipeline, and decoding what it heard tells which picture that is.
import { until } from '../harness/host.ts'
import { type AccessUnit, cornerLevels } from './access-units.ts'
import { percentile, type Target } from './measure.ts'
import { end, startReady } from './process.ts'
import {
  type Mode,
  modeName,
  type Ours,
  openStage,
  type PipelineName,
  pipelineNames,
  settle,
} from './stage.ts'

export const scenes = ['whole screen, still', 'corner, over motion'] as const
export type Scene = (typeof scenes)[number]

export interface FlashFigure {
  readonly name: PipelineName
  readonly scene: Scene
  readonly latenciesMs: number[]
  /** Flips that no picture showed before the next one. */
  missed: number
}

/** One latency a flip, in milliseconds; undefined for one that never showed. */
export function latencies(
  flips: readonly { white: boolean; atUs: number }[],
  units: readonly Pick<AccessUnit, 'lastUs'>[],
  levels: ArrayLike<number>,
): (number | undefined)[] {
  return flips.map(({ white, atUs }, i) => {
    const nextUs = flips[i + 1]?.atUs ?? atUs + 200_000
    const at = units.findIndex(
      ({ lastUs }, u) => lastUs >= atUs && lastUs < nextUs && levels[u]! > 127 === white,
    )
    return at < 0 ? undefined : (units[at]!.lastUs - atUs) / 1000
  })
}

async function flashes(
  ours: Ours,
  player: string,
  name: PipelineName,
  scene: Scene,
  mode: Mode,
  flips: number,
  seed: number,
) {
  const stage = await openStage(ours, name, mode, true)
  try {
    await settle()
    const args = ['--hz', String(mode.hz), '--flips', String(flips), '--seed', String(seed)]
    if (scene === 'corner, over motion') args.push('--corner')
    const flipping = await startReady(player, args, stage.env)
    try {
      await until('the flips', () => flipping.lines().includes('flips done'), 15_000 + flips * 500)
      await settle()
    } finally {
      await end(flipping)
    }
    const shown = flipping
      .lines()
      .map(line => line.match(/^flip \d+ (\d) (\d+)$/))
      .filter(match => match !== null)
      .map(([, white, ns]) => ({ white: white === '1', atUs: Number(ns) / 1000 }))
    const units = await stage.heard()
    return latencies(shown, units, await cornerLevels(units))
  } finally {
    await stage.close()
  }
}

/** Two rounds, the second in the reverse order. */
export async function benchFlash(
  ours: Ours,
  player: string,
  mode: Mode,
  flips: number,
  say: (line: string) => void,
): Promise<FlashFigure[]> {
  const figures = scenes.flatMap(scene =>
    pipelineNames.map((name): FlashFigure => ({ name, scene, latenciesMs: [], missed: 0 })),
  )
  for (const [round, order] of [figures, [...figures].reverse()].entries()) {
    for (const figure of order) {
      const seed = round * 2 + scenes.indexOf(figure.scene) + 1
      const got = await flashes(ours, player, figure.name, figure.scene, mode, Math.ceil(flips / 2), seed)
      for (const ms of got) {
        if (ms === undefined) figure.missed++
        else figure.latenciesMs.push(ms)
      }
      const seen = got.filter(ms => ms !== undefined)
      say(
        `${figure.scene} round ${round + 1}: ${figure.name} p50 ${percentile(seen, 0.5).toFixed(2)} ms, p95 ${percentile(seen, 0.95).toFixed(2)} ms`,
      )
    }
  }
  return figures
}

const p = (figure: FlashFigure, share: number) =>
  percentile([...figure.latenciesMs, ...Array<number>(figure.missed).fill(Number.POSITIVE_INFINITY)], share)

export function flashReport(
  mode: Mode,
  figures: readonly FlashFigure[],
): { rows: string[][]; targets: Target[] } {
  const rows = [['Flash to wire', modeName(mode), 'p50 ms', 'p95 ms', 'ours over it', 'flips', 'never shown']]
  const targets: Target[] = []
  for (const figure of figures) {
    const ours = figures.find(({ name, scene }) => name === 'svc-host' && scene === figure.scene)!
    const ratio = p(ours, 0.5) / p(figure, 0.5)
    const count = figure.latenciesMs.length + figure.missed
    const numbers = [p(figure, 0.5).toFixed(2), p(figure, 0.95).toFixed(2), ratio.toFixed(2)]
    rows.push([figure.name, figure.scene, ...numbers, String(count), String(figure.missed)])
    if (figure === ours) continue
    const what = `flash to wire p50 over ${figure.name}'s, ${figure.scene}`
    targets.push({ what, measured: ratio, atMost: figure.name === 'bound' ? 1.3 : 0.6 })
  }
  return { rows, targets }
}
