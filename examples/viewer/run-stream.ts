// Runs one stream: frames to the recording and the player, input to the host, numbers for the report.
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import type { Connection, Mode, StreamSession, VideoFrame } from 'svc-host/stream'
import { StreamError } from 'svc-host/stream'
import { grantsText, inputGrants } from './grants.ts'
import { decoderConfiguration, lengthPrefixed, nalType, nalTypes, nalUnits, pictureSize } from './h264.ts'
import type { TimedEvents } from './input-script.ts'
import { createRecording, type Recording } from './matroska.ts'
import { openPlayer, type Player } from './player.ts'
import { type Report, report } from './report.ts'

export interface RunOptions {
  readonly mode: Mode
  /** Counted from the first frame; without it until somebody ends the stream. */
  readonly seconds?: number | undefined
  readonly record?: string | undefined
  readonly stats?: string | undefined
  /** A line for each frame: number, capture time (host's clock), arrival (this system's monotonic clock), bytes. */
  readonly frames?: string | undefined
  readonly play?: boolean | undefined
  readonly bitrateKbps?: number | undefined
  readonly audio?: boolean | undefined
  /** Of sound: 2, 6 or 8; default 2. */
  readonly channels?: 2 | 6 | 8 | undefined
  /** Times counted from the first frame. */
  readonly input: readonly TimedEvents[]
  /** The host's operator is asked; for so many milliseconds at most. */
  readonly onWait?: ((limitMs: number | undefined) => void) | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/** From this process's clock to the system's monotonic one, which other programs read as well. */
const toSystemUs = Math.round(Number(process.hrtime.bigint() / 1000n) - performance.now() * 1000)

/** Waiting for the first frame is over after this, milliseconds. */
const firstFrameMs = 20_000

export interface RunResult {
  readonly report: Report
  /** Why the session ended. */
  readonly code: string
  readonly message: string
}

const playInput = (session: StreamSession, script: readonly TimedEvents[]): (() => void) => {
  const timers = script.map(({ atMs, events }) => setTimeout(() => session.sendInput(...events), atMs))
  return () => {
    for (const timer of timers) clearTimeout(timer)
  }
}

export const runStream = async (connection: Connection, options: RunOptions): Promise<RunResult> => {
  const { say, signal } = options
  const session = await connection.start({
    mode: options.mode,
    ...(options.audio && { audio: { channels: options.channels ?? 2, frameMs: 5 } }),
    ...(options.bitrateKbps && { bitrateKbps: options.bitrateKbps }),
    ...(options.onWait && { onWait: (_waitsFor, limitMs) => options.onWait?.(limitMs) }),
    onGrants: grants => say(`from now on this device ${grantsText(grants)}`),
    signal,
  })
  const { started } = session
  say(
    `${connection.host.name} streams ${started.mode.width}x${started.mode.height}@${started.mode.hz} ${started.codec}`,
  )
  if ((started.grants & inputGrants) !== inputGrants) say(`this device ${grantsText(started.grants)}`)

  let recording: Recording | undefined
  let player: Player | undefined
  let size = { width: started.mode.width, height: started.mode.height }
  let firstUs = 0
  let lastUs = 0
  const latenciesUs: number[] = []
  const undo: (() => void)[] = []
  const log = options.frames === undefined ? undefined : openSync(options.frames, 'w')
  if (log !== undefined) writeSync(log, 'frame,capture_us,arrival_us,bytes\n')

  const begin = () => {
    undo.push(playInput(session, options.input))
    if (options.seconds !== undefined) {
      const timer = setTimeout(() => void session.close(), options.seconds * 1000)
      undo.push(() => clearTimeout(timer))
    }
  }
  const take = (frame: VideoFrame) => {
    if (firstUs === 0) {
      firstUs = frame.arrivalUs
      begin()
    }
    lastUs = frame.arrivalUs
    const latency = session.latencyUs(frame)
    if (latency !== undefined) latenciesUs.push(latency)
    if (log !== undefined) {
      writeSync(
        log,
        `${frame.frame},${frame.captureUs},${frame.arrivalUs + toSystemUs},${frame.data.length}\n`,
      )
    }
    player?.write(frame.data)
    const units = nalUnits(frame.data)
    const sps = units.find(unit => nalType(unit) === nalTypes.sps)
    const pps = units.find(unit => nalType(unit) === nalTypes.pps)
    if (sps) size = pictureSize(sps) ?? size
    if (options.record && !recording && sps && pps) {
      const configuration = decoderConfiguration(sps, pps)
      recording = createRecording(
        options.record,
        { ...size, hz: started.mode.hz, configuration },
        started.audio,
      )
    }
    recording?.video(lengthPrefixed(units), frame.captureUs, frame.isKeyframe)
  }
  const takePicture = async () => {
    for await (const frame of session.frames) take(frame)
  }
  const takeSound = async () => {
    for await (const packet of session.audio) recording?.audio(packet.data, packet.captureUs)
  }

  try {
    if (started.codec !== 'h264') {
      throw new StreamError('no-codec', `the host chose ${started.codec}, but this viewer shows h264 only`)
    }
    if (options.play) {
      player = openPlayer(started.codec, connection.host.name)
      void player.closed.then(() => session.close())
    }
    const patience = setTimeout(() => firstUs === 0 && void session.close(), firstFrameMs)
    undo.push(() => clearTimeout(patience))
    await Promise.all([takePicture(), takeSound()])
  } finally {
    for (const step of undo) step()
    await session.close()
    player?.close()
    recording?.close()
    if (log !== undefined) closeSync(log)
  }
  const { code, message } = await session.ended
  if (firstUs === 0 && code === 'quit' && !signal.aborted) {
    throw new StreamError(
      'timeout',
      `no picture came within ${firstFrameMs / 1000} s: is UDP blocked on the way?`,
    )
  }
  const result = report({ stats: session.stats(), ...size, firstUs, lastUs, latenciesUs, ended: code })
  if (options.stats) writeFileSync(options.stats, `${JSON.stringify(result, null, 2)}\n`)
  return { report: result, code, message }
}
