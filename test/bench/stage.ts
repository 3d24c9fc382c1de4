// One display with one pipeline on it, ours, a peer or the bound, all of the same face.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type HostProcess, until } from '../harness/host.ts'
import { streamedDisplay, xDisplays } from '../harness/x11.ts'
import { buildProgram } from '../player/build.ts'
import {
  type AccessUnit,
  countsAsPicture,
  type Form,
  unitsOfRtp,
  unitsOfSvc,
  unitsOfTs,
} from './access-units.ts'
import { monotonicUs } from './measure.ts'
import { videoKey } from './media-key.ts'
import { end } from './process.ts'
import { type Heard, startTap } from './tap.ts'

const here = fileURLToPath(new URL('.', import.meta.url))

export interface Mode {
  readonly width: number
  readonly height: number
  readonly hz: number
  readonly bitrateKbps: number
}

export const modeName = (mode: Mode) => `${mode.width}x${mode.height}@${mode.hz}`

/** One picture that arrived: when, and with how many bytes. */
export interface Arrival {
  readonly atUs: number
  readonly bytes: number
}

export interface Stage {
  readonly name: string
  /** For X clients of its display. */
  readonly env: Record<string, string>
  /** The process that captures, encodes and sends. */
  readonly pid: number
  /** The pictures that the tap has heard; only of a stage that was opened with one, once. */
  heard(): Promise<AccessUnit[]>
  /** How many pictures the tap has heard between two moments, their coded bytes, and all UDP payload; likewise once. */
  bytesHeard(
    fromUs: number,
    toUs: number,
  ): Promise<{ readonly pictures: number; readonly picture: number; readonly wire: number }>
  /** Ends it all and tells what arrived. */
  close(): Promise<Arrival[]>
}

export interface Ours {
  readonly host: HostProcess
  readonly identity: string
}

export const pipelineNames = ['svc-host', 'bound', 'gstreamer', 'ffmpeg'] as const
export type PipelineName = (typeof pipelineNames)[number]

/** With `isTapped`, everything from the first datagram on is written down. */
export const openStage = (ours: Ours, name: PipelineName, mode: Mode, isTapped = false): Promise<Stage> =>
  name === 'svc-host' ? oursOn(ours, mode, isTapped) : peerOn(name, mode, isTapped)

const bytesOf = (heard: readonly Heard[], units: readonly AccessUnit[], fromUs: number, toUs: number) => {
  const inside = (us: number) => us >= fromUs && us < toUs
  const whole = units.filter(({ lastUs }) => inside(lastUs))
  return {
    pictures: whole.length,
    picture: whole.reduce((sum, { data }) => sum + data.length, 0),
    wire: heard.reduce((sum, { data, atUs }) => sum + (inside(atUs) ? data.length : 0), 0),
  }
}

const notTapped = (): never => {
  throw new Error('this stage was opened without a tap')
}

const viewerMain = fileURLToPath(new URL('../../examples/viewer/main.ts', import.meta.url))
const nodeFlags = ['--conditions=svc-source', '--no-warnings']

/** Ours: the real host and the real viewer; the host's whole process counts, sealing and parity included. */
async function oursOn({ host, identity }: Ours, mode: Mode, isTapped: boolean): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const tap = isTapped ? await startTap('from', host.nativePort, join(folder, 'tap')) : undefined
  const [log, keyLog] = [join(folder, 'frames.csv'), join(folder, 'keys')]
  const unitsIn = (heard: readonly Heard[]) =>
    unitsOfSvc(heard, (session, epoch) => videoKey(keyLog, session, epoch))
  const watching = spawn(
    process.execPath,
    [
      ...nodeFlags,
      ...[`--tls-keylog=${keyLog}`, viewerMain, 'stream', `127.0.0.1:${host.nativePort}`],
      ...['--mode', modeName(mode), '--bitrate', String(mode.bitrateKbps), '--no-audio', '--quiet'],
      ...['--frames', log, '--identity', identity],
    ],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const close = async () => {
    await tap?.stop()
    await end(watching)
    await until('the display to go', () => xDisplays(host.pid).length === 0, 30_000)
    const arrivals = readFileSync(log, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map(line => line.split(',').map(Number))
      .map(([, , atUs, bytes]) => ({ atUs: atUs as number, bytes: bytes as number }))
    rmSync(folder, { recursive: true, force: true })
    return arrivals
  }
  try {
    return {
      name: 'svc-host',
      env: (await streamedDisplay(host)).env,
      pid: host.pid,
      heard: async () => unitsIn(await (tap ?? notTapped()).stop()),
      bytesHeard: async (fromUs, toUs) => {
        const heard = await (tap ?? notTapped()).stop()
        return bytesOf(heard, unitsIn(heard), fromUs, toUs)
      },
      close,
    }
  } catch (error) {
    await tap?.stop()
    await end(watching)
    throw error
  }
}

interface Peer {
  readonly form: Form
  command(mode: Mode, port: number, display: string): Promise<string[]>
  units(heard: readonly Heard[]): AccessUnit[]
}

/** The peers get what serves them best: no keyframes but the first, a rate control as tight as ours, no waiting. */
const peers: Record<Exclude<PipelineName, 'svc-host'>, Peer> = {
  bound: {
    form: 'svc',
    command: async (mode, port) => [
      await buildProgram(
        'bound',
        ['xcb', 'xcb-shm', 'xcb-damage', 'x264', 'libisal', 'libcrypto', '-lyuv'],
        here,
      ),
      ...[port, mode.bitrateKbps, mode.hz].map(String),
    ],
    units: heard => unitsOfSvc(heard, () => ({ key: Buffer.alloc(16), iv: Buffer.alloc(12) })),
  },
  gstreamer: {
    form: 'rtp',
    command: async (mode, port, display) => [
      ...['gst-launch-1.0', '-q', 'ximagesrc', `display-name=${display}`, 'use-damage=false', '!'],
      ...[`video/x-raw,framerate=${mode.hz}/1`, '!', 'videoconvert', '!', 'video/x-raw,format=I420', '!'],
      ...['x264enc', 'tune=zerolatency', 'speed-preset=ultrafast', `bitrate=${mode.bitrateKbps}`],
      ...['key-int-max=100000', `vbv-buf-capacity=${Math.round(2000 / mode.hz)}`, '!'],
      ...['rtph264pay', '!', 'udpsink', 'host=127.0.0.1', `port=${port}`, 'sync=false'],
    ],
    units: unitsOfRtp,
  },
  ffmpeg: {
    form: 'ts',
    command: async (mode, port, display) => [
      ...['ffmpeg', '-nostdin', '-loglevel', 'error', '-f', 'x11grab', '-framerate', String(mode.hz)],
      ...['-video_size', `${mode.width}x${mode.height}`, '-i', display, '-fps_mode', 'passthrough'],
      ...['-c:v', 'libx264', '-preset', 'ultrafast', '-tune', 'zerolatency', '-pix_fmt', 'yuv420p'],
      ...['-b:v', `${mode.bitrateKbps}k`, '-maxrate', `${mode.bitrateKbps}k`],
      ...['-bufsize', `${Math.round((mode.bitrateKbps * 2) / mode.hz)}k`, '-g', '100000'],
      ...['-flush_packets', '1', '-f', 'mpegts', `udp://127.0.0.1:${port}?pkt_size=1316`],
    ],
    units: unitsOfTs,
  },
}

/** A peer: one program that captures a display of the benchmark's own and sends to a socket that counts. */
async function peerOn(
  name: Exclude<PipelineName, 'svc-host'>,
  mode: Mode,
  isTapped: boolean,
): Promise<Stage> {
  const peer = peers[name]
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const arrivals: Arrival[] = []
  let bytes = 0
  const sink = createSocket({ type: 'udp4', recvBufferSize: 8 << 20 })
  sink.on('message', datagram => {
    bytes += datagram.length
    if (!countsAsPicture(peer.form, datagram)) return
    arrivals.push({ atUs: monotonicUs(), bytes })
    bytes = 0
  })
  await new Promise<void>(resolve => sink.bind(0, '127.0.0.1', resolve))
  const { port } = sink.address()
  const tap = isTapped ? await startTap('to', port, join(folder, 'tap')) : undefined
  const children: ChildProcess[] = []
  const close = async () => {
    await tap?.stop()
    for (const child of children.reverse()) await end(child)
    sink.close()
    rmSync(folder, { recursive: true, force: true })
    return arrivals
  }
  try {
    // The server picks a free number and tells it.
    const size = `${mode.width}x${mode.height}x24`
    const server = spawn('Xvfb', ['-displayfd', '3', '-screen', '0', size, '-noreset', '-nolisten', 'tcp'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    children.push(server)
    let number = ''
    server.stdio[3]?.on('data', chunk => (number += chunk))
    await until('Xvfb', () => number.includes('\n'))
    const display = `:${number.trim()}`
    const [program, ...args] = await peer.command(mode, port, display)
    const sending = spawn(program as string, args, {
      env: { ...process.env, DISPLAY: display },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    children.push(sending)
    await until(`${name} to send`, () => {
      if (sending.exitCode !== null) throw new Error(`${name} ended with ${sending.exitCode}`)
      return arrivals.length > 0 || bytes > 0
    })
    return {
      name,
      env: { DISPLAY: display },
      pid: sending.pid as number,
      heard: async () => peer.units(await (tap ?? notTapped()).stop()),
      bytesHeard: async (fromUs, toUs) => {
        const heard = await (tap ?? notTapped()).stop()
        return bytesOf(heard, peer.units(heard), fromUs, toUs)
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** A moment for a pipeline to settle. */
export const settle = () => sleep(1200)
