// Sound end to end: what a session's programs play is in the client's recording, at the right pitch and time, on the right
// channel, and nowhere else.
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { isAlive } from '../harness/effects.ts'
import { type HostProcess, run, serve, startViewer, until, viewer } from '../harness/host.ts'
import { openNetwork } from '../harness/network.ts'
import {
  channelsOf,
  greyFrames,
  inside,
  levelAt,
  loudPart,
  onsets,
  pitch,
  playInside,
  writeTones,
} from '../harness/sound.ts'
import { descendants, streamedDisplay, type XDisplay, xDisplays } from '../harness/x11.ts'
import { buildBeep } from '../player/build.ts'

let host: HostProcess
let folder: string
const target = () => `127.0.0.1:${host.nativePort}`
const children: { kill(): unknown }[] = []

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-sound-'))
  // Programs of a session are another account's.
  process.umask(0o022)
})
/** The sound servers of the host that run now. */
const soundServers = () =>
  [...descendants(host.pid)].filter(pid => {
    try {
      return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'pulseaudio'
    } catch {
      return false
    }
  })

afterEach(async () => {
  for (const child of children.splice(0)) child.kill()
  await until('the displays to go', () => xDisplays(host.pid).length === 0, 25_000)
  await until('their sound servers to go', () => soundServers().length === 0)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const open = async (env: Record<string, string> = {}): Promise<void> => {
  host = await serve({ env: { SVC_LOG: 'debug', ...env } })
  const paired = await viewer(join(folder, 'identity'), 'pair', target(), '--pin', await host.arm())
  expect(paired.code, paired.err).toBe(0)
}

/** A second device, once for each host. */
const pairOther = async (): Promise<void> => {
  const other = await viewer(join(folder, 'other'), 'pair', target(), '--pin', await host.arm())
  expect(other.code, other.err).toBe(0)
}
/** Threads of the engine by name. */
const threads = (name: string): number =>
  readdirSync(`/proc/${host.pid}/task`).filter(
    task => readFileSync(`/proc/${host.pid}/task/${task}/comm`, 'utf8').trim() === name,
  ).length
/** The engine's samples of the newest session. */
const samples = (): Record<string, number>[] => {
  const all = host
    .output()
    .split('\n')
    .filter(line => line.includes('pipeline sample'))
    .map(line => JSON.parse(line.slice(line.indexOf('{'))))
  return all.filter(({ session }) => session === all.at(-1).session)
}

interface Told {
  readonly audio_packets: number
  readonly lost_audio_packets: number
  readonly recovered_audio_packets: number
  readonly max_frame_gap_ms: number
}

/** Streams for some seconds into a recording of this name; `ended` gives what the viewer tells. */
function record(name: string, seconds: number, flags: readonly string[] = [], identity = 'identity') {
  const [file, stats] = [join(folder, `${name}.mkv`), join(folder, `${name}.json`)]
  const child = startViewer(
    join(folder, identity),
    ...['stream', target(), '--mode', '640x360@60', '--seconds', String(seconds)],
    ...['--record', file, '--stats', stats, ...flags],
  )
  children.push(child)
  const ended = new Promise<Told>((resolve, reject) =>
    child.once('exit', code =>
      code === 0 ? resolve(JSON.parse(readFileSync(stats, 'utf8'))) : reject(new Error(child.text())),
    ),
  )
  // Who does not wait for it is not told that it was ended.
  ended.catch(() => {})
  return { file, ended }
}

/** Plays a file inside a session, with a buffer of 2 s, as music players do. */
async function play(display: XDisplay, file: string) {
  const child = playInside(await inside(host, display), 'paplay', file)
  children.push(child)
  return child
}

/** A readable copy where every account may look. */
const tones = async (name: string, hz: readonly number[], seconds: number): Promise<string> => {
  const file = join(tmpdir(), `${folder.split('/').at(-1)}-${name}.wav`)
  await writeTones(file, hz, seconds)
  children.push({ kill: () => rmSync(file, { force: true }) })
  return file
}

describe('the test picture', () => {
  beforeAll(() => open({ SVC_SOURCE: 'software' }))
  afterAll(() => host?.stop())

  test('beeps at each second of the clock that it shows, at 440 Hz', async () => {
    const { file, ended } = record('tone', 5, ['--mode', '1280x720@60'])
    const told = await ended
    expect(told.lost_audio_packets).toBe(0)
    const [left, right] = await channelsOf(file, 2)
    const beeps = onsets(left!)
    expect(beeps.length).toBeGreaterThanOrEqual(3)
    expect(onsets(right!)).toEqual(beeps)
    const first = Math.round(beeps[1]! * 48_000)
    expect(Math.abs(pitch(left!.subarray(first + 480, first + 4320)) - 440)).toBeLessThan(1)

    const frames = await greyFrames(file, 'crop=1024:16:0:16,scale=64:1:flags=area', 64)
    const offsets = beeps.map(beep => {
      const frame = frames.find(({ seconds }) => seconds >= beep)
      if (!frame) return 0
      const clockUs = [...frame.grey].reduce((sum, grey) => sum * 2n + (grey > 128 ? 1n : 0n), 0n)
      const shown = Number(clockUs % 1_000_000n) / 1e6
      // By the picture's clock a beep begins at a whole second; by the file's it was heard at `beep`.
      const due = frame.seconds - shown
      return beep - due - Math.round(beep - due)
    })
    for (const offset of offsets) expect(Math.abs(offset), String(offsets)).toBeLessThan(0.04)
  })
})

describe('a session', () => {
  beforeAll(() => open())
  afterAll(() => host?.stop())

  test('has a server of its own without rights, which leaves with a host that is killed', async () => {
    record('rights', 20)
    await inside(host, await streamedDisplay(host))
    const [server] = await until('a sound server', () => {
      const found = soundServers()
      return found.length === 1 && found
    })
    const status = readFileSync(`/proc/${server}/status`, 'utf8')
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(status).toMatch(/^CapEff:\s+0+$/m)
    if (process.getuid?.() === 0) expect(statSync(`/proc/${server}`).uid).not.toBe(0)
    expect(readFileSync(`/proc/${server}/environ`, 'latin1')).not.toContain('SVC_CONFIG_DIR')
    host.child.kill('SIGKILL')
    await until('the sound server to go', () => !isAlive(server!))
    // The rest of the desktop goes at the next start.
    const next = await serve({ configDir: host.configDir })
    await next.stop()
    await host.stop()
    await open()
  }, 40_000)

  test('is heard at the moment at which it is seen', async () => {
    const program = join(tmpdir(), `${folder.split('/').at(-1)}-beep`)
    copyFileSync(await buildBeep(), program)
    children.push({ kill: () => rmSync(program, { force: true }) })
    const { file, ended } = record('beep', 7)
    const display = await streamedDisplay(host)
    const beeping = playInside(await inside(host, display), program)
    children.push(beeping)
    const told = await ended
    expect(told.lost_audio_packets).toBe(0)
    const [left] = await channelsOf(file, 2)
    const beeps = onsets(left!)
    const frames = await greyFrames(file, 'scale=1:1:flags=area', 1)
    const flashes = frames.flatMap(({ seconds, grey }, i) =>
      grey[0]! > 128 && i > 0 && frames[i - 1]!.grey[0]! <= 128 ? [seconds] : [],
    )
    expect(beeps.length, beeping.text()).toBeGreaterThanOrEqual(3)
    const offsets = beeps.flatMap(beep => {
      const near = flashes.map(flash => beep - flash).filter(offset => Math.abs(offset) < 0.5)
      return near.length ? [near[0]!] : []
    })
    expect(offsets.length).toBeGreaterThanOrEqual(3)
    for (const offset of offsets) expect(Math.abs(offset), String(offsets)).toBeLessThanOrEqual(0.04)
  }, 40_000)

  test.each([
    [6, ['FL', 'FR', 'FC', 'LFE', 'BL', 'BR'], [300, 400, 500, 60, 700, 800]],
    [8, ['FL', 'FR', 'FC', 'LFE', 'BL', 'BR', 'SL', 'SR'], [300, 400, 500, 60, 700, 800, 900, 1000]],
  ])(
    'with %i channels each one is heard where it belongs',
    async (channels, names, hz) => {
      const file = await tones(`surround-${channels}`, hz, 3)
      const recording = record(`surround-${channels}`, 6, ['--channels', String(channels)])
      const playing = await play(await streamedDisplay(host), file)
      await recording.ended
      const heard = await channelsOf(recording.file, channels)
      for (const [i, name] of names.entries()) {
        const part = loudPart(heard[i]!)
        expect(part.length / 48_000, `${name}: ${playing.text()}`).toBeGreaterThan(1)
        expect(Math.abs(pitch(part) - hz[i]!), name).toBeLessThan(1)
        for (const [j, other] of hz.entries()) {
          const level = levelAt(part.subarray(0, 48_000), other)
          if (i === j) expect(level, name).toBeGreaterThan(0.3)
          else expect(level, `${names[j]} in ${name}`).toBeLessThan(0.03)
        }
      }
    },
    40_000,
  )

  test('a tone has no gap where 5 % of all datagrams are lost: parity follows the loss', async () => {
    const file = await tones('steady', [440, 440], 8)
    const network = await openNetwork()
    try {
      await network.dropUdp(5)
      const [video, stats] = [join(folder, 'lossy.mkv'), join(folder, 'lossy.json')]
      const watching = run('ip', [
        ...['netns', 'exec', network.name, process.execPath],
        ...['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning'],
        ...['examples/viewer/main.ts', 'stream', `${network.hostAddress}:${host.nativePort}`, '--quiet'],
        ...['--identity', join(folder, 'identity'), '--pin', await host.arm()],
        ...['--mode', '640x360@60', '--seconds', '12', '--record', video, '--stats', stats],
      ])
      const display = await streamedDisplay(host)
      // By then the client has told of the loss.
      await sleep(2000)
      const playing = await play(display, file)
      const watched = await watching
      expect(watched.code, watched.err).toBe(0)
      const told: Told = JSON.parse(readFileSync(stats, 'utf8'))
      const part = loudPart((await channelsOf(video, 2))[0]!)
      expect(part.length / 48_000, playing.text()).toBeGreaterThan(6)
      expect(Math.abs(pitch(part) - 440)).toBeLessThan(1)
      const quiet = Array.from({ length: Math.floor(part.length / 240) }, (_, i) =>
        Math.max(...part.subarray(i * 240, (i + 1) * 240).map(Math.abs)),
      ).filter(peak => peak < 0.1).length
      const sampled = samples()
      // What this machine was too busy to send in time is no loss of the path.
      const unsent = sampled.reduce((sum, sample) => sum + (sample['audio_dropped'] ?? 0), 0)
      expect(quiet).toBeLessThanOrEqual(unsent)
      expect(told.recovered_audio_packets).toBeGreaterThan(30)
      // Packets of silence stand alone, ten a second: one of twenty of those is gone, and nobody hears it.
      expect(told.lost_audio_packets).toBeLessThanOrEqual(8)
      const reported = sampled.reduce((sum, sample) => sum + (sample['audio_packets_lost'] ?? 0), 0)
      expect(reported).toBeLessThanOrEqual(told.lost_audio_packets)
      const parity = sampled.map(sample => sample['audio_parity_packets']! / (sample['audio_packets'] || 1))
      expect(Math.max(...parity)).toBeGreaterThan(0.4)
    } finally {
      await network.close()
    }
  }, 60_000)

  test('two that join one display hear the same, from one capture and an encoder each', async () => {
    await pairOther()
    expect((await host.api('PUT', '/display/settings', { mode_conflict: 'join' })).status).toBe(200)
    try {
      const file = await tones('joined', [440, 440], 5)
      const first = record('joined-first', 9)
      const display = await streamedDisplay(host)
      const second = record('joined-second', 7, [], 'other')
      await until('two sessions', async () => (await host.api('GET', '/status')).body.sessions.length === 2)
      await until('both to be sent sound', () => threads('svc-audio') === 2)
      expect(threads('svc-sound')).toBe(1)
      expect(xDisplays(host.pid)).toHaveLength(1)
      await play(display, file)
      await Promise.all([first.ended, second.ended])
      for (const recording of [first, second]) {
        for (const channel of await channelsOf(recording.file, 2)) {
          const part = loudPart(channel)
          expect(part.length / 48_000).toBeGreaterThan(2)
          expect(Math.abs(pitch(part) - 440)).toBeLessThan(1)
        }
      }
    } finally {
      await host.api('PUT', '/display/settings', {})
    }
  }, 60_000)

  test('two at once do not hear each other', async () => {
    await pairOther()
    const files = [await tones('first', [440, 440], 4), await tones('second', [660, 660], 4)]
    const first = record('first', 8)
    const one = await streamedDisplay(host)
    const second = record('second', 7, [], 'other')
    const two = await until('the second display', () =>
      xDisplays(host.pid).find(({ display }) => display !== one.display),
    )
    await play(one, files[0]!)
    await play(two, files[1]!)
    await Promise.all([first.ended, second.ended])
    for (const [file, own, foreign] of [
      [first.file, 440, 660],
      [second.file, 660, 440],
    ] as const) {
      const part = loudPart((await channelsOf(file, 2))[0]!)
      expect(Math.abs(pitch(part) - own)).toBeLessThan(1)
      expect(levelAt(part, foreign)).toBeLessThan(0.001)
    }
  }, 60_000)

  test('goes on in silence while the extension is off, and is heard again', async () => {
    const file = await tones('long', [440, 440], 60)
    const recording = record('toggled', 13)
    const display = await streamedDisplay(host)
    const streaming = async () => (await host.api('GET', '/status')).body.audio_streaming
    const turn = (enabled: boolean) => host.api('PUT', '/extensions/sound', { enabled })
    await play(display, file)
    await sleep(3000)
    expect(await streaming()).toBe(true)
    expect((await turn(false)).status).toBe(200)
    expect(await streaming()).toBe(false)
    await sleep(2000)
    expect((await turn(true)).status).toBe(200)
    await until('sound to be sent again', streaming)
    await until('the server to take players', async () => {
      const again = await play(display, file)
      const isOver = new Promise<boolean>(resolve => again.once('exit', () => resolve(true)))
      return !(await Promise.race([isOver, sleep(500, false)]))
    })
    const told = await recording.ended
    expect(told.max_frame_gap_ms).toBeLessThan(1000)
    const [left] = await channelsOf(recording.file, 2)
    const loud = Array.from({ length: Math.floor(left!.length / 4800) }, (_, i) =>
      levelAt(left!.subarray(i * 4800, (i + 1) * 4800), 440) > 0.2 ? 'x' : '.',
    ).join('')
    expect(loud).toMatch(/x{5,}\.{10,}x{8,}/)
  }, 60_000)
})
