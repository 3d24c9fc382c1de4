// What a stream costs while nothing on the screen moves.
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs, median, type Target } from './measure.ts'
import { end, startReady } from './process.ts'
import { type Mode, modeName, type Ours, openStage, type PipelineName, pipelineNames } from './stage.ts'

export interface StillFigure {
  readonly name: PipelineName
  /** Per cent of one core, a figure a round. */
  readonly percentOfCore: number[]
}

/** A picture that stopped changing is refined for about a second; what comes after that is still. */
const refinedMs = 3000

export async function benchStill(
  ours: Ours,
  player: string,
  mode: Mode,
  rounds: number,
  seconds: number,
  say: (line: string) => void,
): Promise<StillFigure[]> {
  const figures = pipelineNames.map((name): StillFigure => ({ name, percentOfCore: [] }))
  for (let round = 0; round < rounds; round++) {
    for (const figure of round % 2 ? [...figures].reverse() : figures) {
      const stage = await openStage(ours, figure.name, mode)
      try {
        const card = await startReady(player, ['--card'], stage.env)
        try {
          await sleep(refinedMs)
          const before = cpuMs(stage.pid)
          await sleep(seconds * 1000)
          figure.percentOfCore.push((cpuMs(stage.pid) - before) / seconds / 10)
        } finally {
          await end(card)
        }
      } finally {
        await stage.close()
      }
      say(`still round ${round + 1}: ${figure.name} ${figure.percentOfCore.at(-1)!.toFixed(3)} % of a core`)
    }
  }
  return figures
}

export function stillReport(
  mode: Mode,
  figures: readonly StillFigure[],
): { rows: string[][]; targets: Target[] } {
  const ours = median(figures[0]!.percentOfCore)
  const targets = [{ what: `still screen, % of a core, ${modeName(mode)}`, measured: ours, atMost: 2 }]
  const rows = [['Still screen', 'mode', '% of a core', 'ours over it']]
  for (const { name, percentOfCore } of figures) {
    const percent = median(percentOfCore)
    rows.push([name, modeName(mode), percent.toFixed(3), (ours / percent).toFixed(3)])
    if (name === 'ffmpeg' || name === 'gstreamer') {
      targets.push({ what: `still screen CPU over ${name}'s`, measured: ours / percent, atMost: 0.05 })
    }
  }
  return { rows, targets }
}
