// CPU a frame: the same moving pictures through every pipeline, in turn, each asked for what makes it code as many bits.
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
  /** A coded picture alone. */
  readonly pictureKbit: number
  /** UDP payload for each picture: with parity, seals and containers. */
  readonly wireKbit: number
}

/** What a pipeline is asked for so that its pictures take the bits aimed at, and their part in what it sends. */
interface Ask {
  readonly kbps: number
  readonly pictureShare: number
}

export interface CpuResult {
  readonly mode: Mode
  readonly aimKbit: number
  readonly asks: Readonly<Record<string, Ask>>
  readonly rounds: readonly (readonly CpuFigure[])[]
  /** Middle of the rounds, one figure a pipeline. */
  readonly middle: readonly CpuFigure[]
}

/**
 * Bits of a coded picture, as a part of what a mode's bitrate leaves for each. Ours counts parity and seals in what it is asked for, the others
 * do not, and each falls short of it in its own way.
 */
const aimed = 0.85
const tolerance = 0.03

/** Listens in, and asks again until the pictures take what is aimed at, or three times. */
async function findAsk(
  ours: Ours,
  player: string,
  name: PipelineName,
  mode: Mode,
  aimKbit: number,
): Promise<Ask> {
  let kbps = mode.bitrateKbps
  for (let attempt = 1; ; attempt++) {
    const stage = await openStage(ours, name, { ...mode, bitrateKbps: kbps }, true)
    try {
      const moving = await startReady(player, ['--hz', String(mode.hz)], stage.env)
      await settle()
      const from = monotonicUs()
      await sleep(2500)
      const to = monotonicUs()
      await end(moving)
      const { pictures, picture, wire } = await stage.bytesHeard(from, to)
      if (!pictures) throw new Error(`${name} has sent no picture`)
      // By picture, not by second: a machine that is too busy leaves pictures out, not bits.
      const off = (picture * 8) / 1000 / pictures / aimKbit
      if (Math.abs(off - 1) < tolerance || attempt === 3) return { kbps, pictureShare: picture / wire }
      kbps = Math.round(kbps / Math.min(2, Math.max(0.5, off)))
    } finally {
      await stage.close()
    }
  }
}

async function figure(
  ours: Ours,
  player: string,
  name: PipelineName,
  wanted: Mode,
  { kbps, pictureShare }: Ask,
  seconds: number,
): Promise<CpuFigure> {
  const mode = { ...wanted, bitrateKbps: kbps }
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
        ...bitsOf(name, (bytes * 8) / 1000 / seen.length, pictureShare),
      }
    } finally {
      await end(moving)
    }
  } finally {
    if (!isClosed) await stage.close()
  }
}

/** Of ours the pictures are counted as they come out, of the others the datagrams. */
const bitsOf = (name: PipelineName, kbit: number, share: number) =>
  name === 'svc-host'
    ? { pictureKbit: kbit, wireKbit: kbit / share }
    : { pictureKbit: kbit * share, wireKbit: kbit }

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
    const aimKbit = (mode.bitrateKbps * aimed) / mode.hz
    const asks = {} as Record<PipelineName, Ask>
    for (const name of pipelineNames) {
      asks[name] = await findAsk(ours, player, name, mode, aimKbit)
      say(`${modeName(mode)}: ${name} is asked for ${asks[name].kbps} kbit/s`)
    }
    for (let round = 0; round < rounds; round++) {
      const got = new Map<PipelineName, CpuFigure>()
      for (const name of round % 2 ? [...pipelineNames].reverse() : pipelineNames) {
        const f = await figure(ours, player, name, mode, asks[name], seconds)
        say(
          `${modeName(mode)} round ${round + 1}: ${name} ${f.cpuMsPerFrame.toFixed(2)} ms/frame, ${f.fps.toFixed(1)} fps`,
        )
        got.set(name, f)
      }
      all.push(pipelineNames.map(name => got.get(name)!))
    }
    const middle = pipelineNames.map((name, i) => {
      const of = (pick: (f: CpuFigure) => number) => median(all.map(round => pick(round[i]!)))
      return {
        name,
        fps: of(f => f.fps),
        cpuMsPerFrame: of(f => f.cpuMsPerFrame),
        pictureKbit: of(f => f.pictureKbit),
        wireKbit: of(f => f.wireKbit),
      }
    })
    results.push({ mode, aimKbit, asks, rounds: all, middle })
  }
  return results
}

const atMost: Record<Exclude<PipelineName, 'svc-host'>, number> = {
  bound: 1.15,
  gstreamer: 0.85,
  ffmpeg: 0.75,
}

export function cpuReport(results: readonly CpuResult[]): { rows: string[][]; targets: Target[] } {
  const head = ['ms', 'ours over it', 'fps', 'kbit a picture', 'on the wire', 'asked kbit/s']
  const rows = [['CPU a frame, at as many picture bits', 'mode', ...head]]
  const targets: Target[] = []
  for (const { mode, aimKbit, asks, middle } of results) {
    const ours = middle[0]!
    for (const f of middle) {
      const ratio = ours.cpuMsPerFrame / f.cpuMsPerFrame
      const bits = [f.pictureKbit.toFixed(1), f.wireKbit.toFixed(1), String(asks[f.name]!.kbps)]
      const cells = [f.cpuMsPerFrame.toFixed(2), ratio.toFixed(2), f.fps.toFixed(1), ...bits]
      rows.push([f.name, `${modeName(mode)}, ${aimKbit.toFixed(0)} kbit aimed at`, ...cells])
      if (f.name === 'svc-host') continue
      const what = `CPU a frame over ${f.name}'s, ${modeName(mode)}`
      targets.push({ what, measured: ratio, atMost: atMost[f.name] })
    }
  }
  return { rows, targets }
}
