// CPU a frame: the same moving pictures through every pipeline, in turn.
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs, median, monotonicUs, type Target } from './measure.ts'
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

export interface CpuFigure {
  readonly name: PipelineName
  readonly fps: number
  readonly cpuMsPerFrame: number
  /** UDP payload of the peers and the bound; coded pictures alone of ours. */
  readonly mbps: number
}

export interface CpuResult {
  readonly mode: Mode
  readonly rounds: readonly (readonly CpuFigure[])[]
  /** Middle of the rounds, one figure a pipeline. */
  readonly middle: readonly CpuFigure[]
}

async function figure(ours: Ours, player: string, name: PipelineName, mode: Mode, seconds: number) {
  const stage = await openStage(ours, name, mode)
  let isClosed = false
  try {
    const moving = await startReady(player, ['--hz', String(mode.hz)], stage.env)
    try {
      await settle()
      const [cpuBefore, from] = [cpuMs(stage.pid), monotonicUs()]
      await sleep(seconds * 1000)
      const [cpuAfter, to] = [cpuMs(stage.pid), monotonicUs()]
      await end(moving)
      isClosed = true
      const seen = (await stage.close()).filter(({ atUs }) => atUs >= from && atUs < to)
      const bytes = seen.reduce((sum, frame) => sum + frame.bytes, 0)
      return {
        name,
        fps: (seen.length * 1e6) / (to - from),
        cpuMsPerFrame: (cpuAfter - cpuBefore) / seen.length,
        mbps: (bytes * 8) / (to - from),
      }
    } finally {
      await end(moving)
    }
  } finally {
    if (!isClosed) await stage.close()
  }
}

/** Runs each mode `rounds` times, every other round in the reverse order, so that a noisy neighbour strikes all. */
export async function benchCpu(
  ours: Ours,
  player: string,
  modes: readonly Mode[],
  rounds: number,
  seconds: number,
  say: (line: string) => void,
): Promise<CpuResult[]> {
  const results: CpuResult[] = []
  for (const mode of modes) {
    const all: CpuFigure[][] = []
    for (let round = 0; round < rounds; round++) {
      const got = new Map<PipelineName, CpuFigure>()
      for (const name of round % 2 ? [...pipelineNames].reverse() : pipelineNames) {
        const f = await figure(ours, player, name, mode, seconds)
        say(
          `${modeName(mode)} round ${round + 1}: ${name} ${f.cpuMsPerFrame.toFixed(2)} ms/frame, ${f.fps.toFixed(1)} fps`,
        )
        got.set(name, f)
      }
      all.push(pipelineNames.map(name => got.get(name)!))
    }
    const middle = pipelineNames.map((name, i) => {
      const of = (pick: (f: CpuFigure) => number) => median(all.map(round => pick(round[i]!)))
      return { name, fps: of(f => f.fps), cpuMsPerFrame: of(f => f.cpuMsPerFrame), mbps: of(f => f.mbps) }
    })
    results.push({ mode, rounds: all, middle })
  }
  return results
}

const atMost: Record<Exclude<PipelineName, 'svc-host'>, number> = {
  bound: 1.15,
  gstreamer: 0.85,
  ffmpeg: 0.75,
}

export function cpuReport(results: readonly CpuResult[]): { rows: string[][]; targets: Target[] } {
  const rows = [['CPU a frame', 'mode', 'ms', 'ours over it', 'fps', 'Mbit/s']]
  const targets: Target[] = []
  for (const { mode, middle } of results) {
    const ours = middle[0]!
    for (const f of middle) {
      const ratio = ours.cpuMsPerFrame / f.cpuMsPerFrame
      const cells = [f.cpuMsPerFrame.toFixed(2), ratio.toFixed(2), f.fps.toFixed(1), f.mbps.toFixed(1)]
      rows.push([f.name, modeName(mode), ...cells])
      if (f.name === 'svc-host') continue
      const what = `CPU a frame over ${f.name}'s, ${modeName(mode)}`
      targets.push({ what, measured: ratio, atMost: atMost[f.name] })
    }
  }
  return { rows, targets }
}
