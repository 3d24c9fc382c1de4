// Listens to recorded streams with ffmpeg, and plays sound inside a session: pitch, levels, beeps, flashes.
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { type HostProcess, run, until } from './host.ts'
import { bytesOf } from './video.ts'
import type { XDisplay } from './x11.ts'

export const rate = 48_000

/** Samples of each channel, in the order of a WAV file, from the recording's first frame on; holes are silence. */
export async function channelsOf(file: string, channels: number): Promise<Float32Array[]> {
  const raw = await bytesOf('ffmpeg', [
    ...['-v', 'error', '-i', file, '-map', '0:a:0'],
    ...['-af', 'aresample=async=1:min_hard_comp=0.004:first_pts=0', '-f', 'f32le', '-'],
  ])
  const all = new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + (raw.length & ~3)))
  return Array.from({ length: channels }, (_, c) => all.filter((_, i) => i % channels === c))
}

/** The loud part of a recording, without its first and last tenth of a second. */
export function loudPart(samples: Float32Array, level = 0.05): Float32Array {
  const first = samples.findIndex(sample => Math.abs(sample) > level)
  const last = samples.findLastIndex(sample => Math.abs(sample) > level)
  return samples.subarray(first + rate / 10, Math.max(first + rate / 10, last - rate / 10))
}

/** Frequency of a pure tone in Hz, by the rising zero crossings. */
export function pitch(samples: Float32Array): number {
  let first = -1
  let last = -1
  let turns = -1
  for (let i = 1; i < samples.length; i++) {
    const [a, b] = [samples[i - 1]!, samples[i]!]
    if (!(a < 0 && b >= 0)) continue
    const at = i - 1 + a / (a - b)
    if (first < 0) first = at
    last = at
    turns++
  }
  return turns > 0 ? (turns * rate) / (last - first) : 0
}

/** Amplitude of one frequency in the samples (Goertzel's sum, as a plain correlation). */
export function levelAt(samples: Float32Array, hz: number): number {
  let [re, im] = [0, 0]
  for (let i = 0; i < samples.length; i++) {
    re += samples[i]! * Math.cos((2 * Math.PI * hz * i) / rate)
    im += samples[i]! * Math.sin((2 * Math.PI * hz * i) / rate)
  }
  return samples.length ? (2 * Math.hypot(re, im)) / samples.length : 0
}

/** Seconds at which sound begins after at least a fifth of a second of quiet. */
export function onsets(samples: Float32Array, level = 0.1): number[] {
  const found: number[] = []
  let quiet = 0
  for (let i = 0; i < samples.length; i++) {
    if (Math.abs(samples[i]!) <= level) quiet++
    else {
      if (quiet >= rate / 5) found.push(i / rate)
      quiet = 0
    }
  }
  return found
}

/** Of each frame: when it is shown, in seconds, and the pixels of an area of it, scaled and grey. */
export async function greyFrames(
  file: string,
  filter: string,
  pixels: number,
): Promise<{ seconds: number; grey: Buffer }[]> {
  const [raw, times] = await Promise.all([
    bytesOf('ffmpeg', [
      // Evenly spaced, because frames of one tick of the muxer's clock would be dropped.
      ...[
        '-v',
        'error',
        '-i',
        file,
        '-vf',
        `${filter},format=gray,setpts=N/60/TB`,
        '-fps_mode',
        'passthrough',
      ],
      ...['-f', 'rawvideo', '-'],
    ]),
    run('ffprobe', [
      ...['-v', 'error', '-select_streams', 'v:0', '-show_entries', 'frame=pts_time', '-of', 'csv=p=0', file],
    ]),
  ])
  const seconds = times.out
    .split('\n')
    .filter(line => /\d/.test(line))
    .map(Number.parseFloat)
  if (seconds.length * pixels !== raw.length) throw new Error(`${seconds.length} times, ${raw.length} pixels`)
  return seconds.map((at, i) => ({ seconds: at, grey: raw.subarray(i * pixels, (i + 1) * pixels) }))
}

/** Environment of the programs on a display, and their account where this is root. */
export async function inside(
  host: HostProcess,
  display: XDisplay,
): Promise<{
  env: Record<string, string>
  uid?: number
  gid?: number
}> {
  return until('a program of the session', () => {
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name) || Number(name) === host.pid) continue
      try {
        const entries = readFileSync(`/proc/${name}/environ`, 'utf8').split('\0')
        if (!entries.includes(`XAUTHORITY=${display.xauthority}`)) continue
        const env = Object.fromEntries(
          entries.filter(Boolean).map(entry => entry.split(/=(.*)/s).slice(0, 2)),
        )
        if (!env.PULSE_SERVER || !env.HOME) continue
        const { uid, gid } = statSync(env.HOME)
        return process.getuid?.() === 0 ? { env, uid, gid } : { env }
      } catch {} // it has gone meanwhile
    }
    return undefined
  })
}

/** Starts a program as one of a session; ended by the caller. */
export function playInside(session: Awaited<ReturnType<typeof inside>>, command: string, ...args: string[]) {
  const child: ChildProcess & { text(): string } = Object.assign(
    spawn(command, args, { ...session, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] }),
    { text: () => text },
  )
  let text = ''
  child.stdout?.on('data', chunk => (text += chunk))
  child.stderr?.on('data', chunk => (text += chunk))
  return child
}

/** Writes a WAV file with one tone for each channel, in the order FL FR FC LFE BL BR SL SR. */
export async function writeTones(file: string, hz: readonly number[], seconds: number): Promise<void> {
  const layout = { 1: 'mono', 2: 'stereo', 6: '5.1', 8: '7.1' }[hz.length]
  const tones = hz.map(each => `0.5*sin(2*PI*${each}*t)`).join('|')
  const source = `aevalsrc=exprs=${tones}:c=${layout}:s=${rate}:d=${seconds}`
  const { code, err } = await run('ffmpeg', ['-v', 'error', '-y', '-f', 'lavfi', '-i', source, file])
  if (code !== 0) throw new Error(`ffmpeg: ${err}`)
}
