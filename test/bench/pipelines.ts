// Whole pipelines beside their peers: CPU a frame and frames delivered, of the same moving content in the same run.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type HostProcess, serve, startViewer, until, viewer } from '../harness/host.ts'
import { streamedDisplay, xDisplays } from '../harness/x11.ts'
import { buildPlayer } from '../player/build.ts'
import { cpuMs, median } from './measure.ts'

export interface PipelineCase {
  readonly width: number
  readonly height: number
  readonly hz: number
  readonly bitrateKbps: number
}

export interface PipelineFigure {
  readonly name: string
  readonly fps: number
  readonly cpuMsPerFrame: number
  readonly mbps: number
}

const ended = (child: ChildProcess) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise<void>(resolve => child.once('exit', () => resolve()))

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM')
  await ended(child)
}

/** Starts the player on a display and waits until it shows. */
async function play(player: string, env: Record<string, string>, hz: number): Promise<ChildProcess> {
  const child = spawn(player, ['--hz', String(hz)], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('exit', code => reject(new Error(`the player ended with ${code}`)))
  })
  return child
}

const monotonicUs = () => Number(process.hrtime.bigint() / 1000n)

/** Arrival times (monotonic microseconds) and sizes out of the viewer's frame log. */
const arrivals = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map(line => line.split(',').map(Number))
    .map(([, , arrivalUs, bytes]) => ({ arrivalUs: arrivalUs as number, bytes: bytes as number }))

/** Ours: the real host and the real viewer; what is counted is the host's whole process, sealing and parity included. */
async function ours(b: Bench, c: PipelineCase): Promise<PipelineFigure> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const log = join(folder, 'frames.csv')
  const watching = startViewer(
    b.identity,
    ...['stream', `127.0.0.1:${b.host.nativePort}`, '--mode', `${c.width}x${c.height}@${c.hz}`],
    ...['--bitrate', String(c.bitrateKbps), '--seconds', String(b.seconds + 6), '--frames', log],
  )
  let moving: ChildProcess | undefined
  try {
    const display = await streamedDisplay(b.host)
    moving = await play(b.player, display.env, c.hz)
    await sleep(b.warmUpMs)
    const [cpuBefore, from] = [cpuMs(b.host.pid), monotonicUs()]
    await sleep(b.seconds * 1000)
    const [cpuAfter, to] = [cpuMs(b.host.pid), monotonicUs()]
    await end(moving)
    await end(watching)
    const seen = arrivals(log).filter(frame => frame.arrivalUs >= from && frame.arrivalUs < to)
    const bytes = seen.reduce((sum, frame) => sum + frame.bytes, 0)
    return {
      name: 'svc-host',
      fps: (seen.length * 1e6) / (to - from),
      cpuMsPerFrame: (cpuAfter - cpuBefore) / seen.length,
      mbps: (bytes * 8) / (to - from),
    }
  } finally {
    if (moving) await end(moving)
    await end(watching)
    rmSync(folder, { recursive: true, force: true })
    await until('the display to go', () => xDisplays(b.host.pid).length === 0, 30_000)
  }
}

/** A peer: one program that captures a display of the benchmark's own, encodes and sends to a socket that counts. */
async function peer(
  b: Bench,
  c: PipelineCase,
  name: string,
  command: (sink: number, display: string) => string[],
): Promise<PipelineFigure> {
  const number = 200 + Math.floor(Math.random() * 400)
  const display = `:${number}`
  const server = spawn(
    'Xvfb',
    [display, '-screen', '0', `${c.width}x${c.height}x24`, '-noreset', '-nolisten', 'tcp'],
    { stdio: 'ignore' },
  )
  const sink = await listen()
  const children = [server]
  try {
    await sleep(1000)
    children.push(await play(b.player, { DISPLAY: display }, c.hz))
    const [program, ...args] = command(sink.port, display)
    const sending = spawn(program as string, args, {
      env: { ...process.env, DISPLAY: display },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(sending)
    let progress = ''
    sending.stdout?.on('data', chunk => (progress += chunk))
    sending.stderr?.on('data', chunk => (progress += chunk))
    await sleep(b.warmUpMs)
    const frames = () => Number(progress.match(/frame=\s*(\d+)(?![\s\S]*frame=)/)?.[1] ?? Number.NaN)
    // Its own count comes a few times a second: the window begins and ends right after one.
    const nextCount = async () => {
      const seen = frames()
      await until(`${name} to count`, () => frames() > seen || Number.isNaN(seen), 3000)
      return frames()
    }
    const framesBefore = await nextCount()
    const [cpuBefore, from, bytesBefore] = [cpuMs(sending.pid as number), monotonicUs(), sink.bytes()]
    await sleep(b.seconds * 1000)
    const framesAfter = await nextCount()
    const [cpuAfter, to, bytesAfter] = [cpuMs(sending.pid as number), monotonicUs(), sink.bytes()]
    const count = framesAfter - framesBefore
    return {
      name,
      fps: (count * 1e6) / (to - from),
      cpuMsPerFrame: (cpuAfter - cpuBefore) / count,
      mbps: ((bytesAfter - bytesBefore) * 8) / (to - from),
    }
  } finally {
    for (const child of children.reverse()) await end(child)
    sink.close()
  }
}

/** A socket that takes what the peers send and counts the bytes. */
async function listen(): Promise<{ port: number; bytes(): number; close(): void }> {
  const socket: Socket = createSocket({ type: 'udp4', recvBufferSize: 8 << 20 })
  let bytes = 0
  socket.on('message', message => (bytes += message.length))
  await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', resolve))
  return { port: socket.address().port, bytes: () => bytes, close: () => socket.close() }
}

const ffmpeg = (c: PipelineCase) => (sink: number, display: string) => [
  ...['ffmpeg', '-nostdin', '-loglevel', 'error', '-progress', 'pipe:1', '-stats_period', '0.2'],
  ...['-f', 'x11grab', '-framerate', String(c.hz), '-video_size', `${c.width}x${c.height}`, '-i', display],
  ...['-c:v', 'libx264', '-preset', 'ultrafast', '-tune', 'zerolatency', '-pix_fmt', 'yuv420p'],
  ...[
    '-b:v',
    `${c.bitrateKbps}k`,
    '-maxrate',
    `${c.bitrateKbps}k`,
    '-bufsize',
    `${Math.round((c.bitrateKbps * 2) / c.hz)}k`,
  ],
  ...['-g', '100000', '-f', 'mpegts', `udp://127.0.0.1:${sink}?pkt_size=1316`],
]

interface Bench {
  readonly host: HostProcess
  readonly identity: string
  readonly player: string
  readonly seconds: number
  readonly warmUpMs: number
}

export interface PipelineResult {
  readonly case: PipelineCase
  readonly rounds: readonly (readonly PipelineFigure[])[]
  /** Middle of the rounds, one figure a pipeline. */
  readonly middle: readonly PipelineFigure[]
}

/** Runs each case `rounds` times, ours and the peers in turn, so that a noisy neighbour strikes all of them. */
export async function benchPipelines(
  cases: readonly PipelineCase[],
  rounds: number,
  seconds: number,
): Promise<PipelineResult[]> {
  const player = await buildPlayer()
  const host = await serve()
  const identity = mkdtempSync(join(tmpdir(), 'svc-bench-identity-'))
  try {
    const paired = await viewer(identity, 'pair', `127.0.0.1:${host.nativePort}`, '--pin', await host.arm())
    if (paired.code !== 0) throw new Error(`pairing failed: ${paired.err}`)
    const bench: Bench = { host, identity, player, seconds, warmUpMs: 1500 }
    const results: PipelineResult[] = []
    for (const c of cases) {
      const all: PipelineFigure[][] = []
      for (let round = 0; round < rounds; round++) {
        const figures = [() => ours(bench, c), () => peer(bench, c, 'ffmpeg x11grab', ffmpeg(c))]
        if (round % 2) figures.reverse()
        const got: PipelineFigure[] = []
        for (const figure of figures) got.push(await figure())
        all.push(got.sort((a, b) => (a.name === 'svc-host' ? -1 : b.name === 'svc-host' ? 1 : 0)))
        for (const figure of got) {
          const { name, fps, cpuMsPerFrame, mbps } = figure
          process.stderr.write(
            `  ${c.width}x${c.height} round ${round + 1}: ${name} ${cpuMsPerFrame.toFixed(2)} ms/frame, ${fps.toFixed(1)} fps, ${mbps.toFixed(1)} Mbit/s\n`,
          )
        }
      }
      const middle = (all[0] ?? []).map(({ name }, i) => {
        const of = (pick: (f: PipelineFigure) => number) =>
          median(all.map(round => pick(round[i] as PipelineFigure)))
        return { name, fps: of(f => f.fps), cpuMsPerFrame: of(f => f.cpuMsPerFrame), mbps: of(f => f.mbps) }
      })
      results.push({ case: c, rounds: all, middle })
    }
    return results
  } finally {
    await host.stop()
    rmSync(identity, { recursive: true, force: true })
  }
}
