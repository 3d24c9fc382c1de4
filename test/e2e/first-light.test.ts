// First light: a client pairs by PIN, sees the desktop of its own virtual display, and types into it.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type HostProcess, serve, startViewer, until, viewer } from '../harness/host.ts'
import { drawnNumbers, probe, psnrOfLastFrame } from '../harness/video.ts'
import { screenshot, streamedDisplay, xDisplays } from '../harness/x11.ts'
import { buildPlayer } from '../player/build.ts'

let host: HostProcess
let identity: string
let folder: string
let player: string
const target = () => `127.0.0.1:${host.nativePort}`

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-first-light-'))
  identity = join(folder, 'identity')
  player = await buildPlayer()
  host = await serve()
  const paired = await viewer(identity, 'pair', target(), '--pin', await host.arm())
  expect(paired.code, paired.err).toBe(0)
})

afterAll(async () => {
  await host?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** A client that quits leaves nothing behind; the next test begins with no display. */
const displaysGone = () => until('the display to go', () => xDisplays(host.pid).length === 0, 25_000)
afterEach(displaysGone)

test('a moving desktop arrives whole, at the size and rate asked for, and in order', async () => {
  const [record, stats] = [join(folder, 'moving.mkv'), join(folder, 'moving.json')]
  const watching = startViewer(
    identity,
    ...['stream', target(), '--mode', '1280x720@60', '--record', record, '--stats', stats],
  )
  const ended = new Promise<number | null>(resolve => watching.once('exit', resolve))
  const display = await streamedDisplay(host)
  const moving = spawn(player, ['--hz', '60'], { env: { ...process.env, ...display.env }, stdio: 'ignore' })
  // Counted from here: how long a desktop takes to come up is no part of this.
  await sleep(6000)
  watching.kill('SIGINT')
  expect(await ended, watching.text()).toBe(0)
  moving.kill()

  const seen = await probe(record)
  expect(seen).toMatchObject({ width: 1280, height: 720, codec: 'h264' })
  const told = JSON.parse(readFileSync(stats, 'utf8'))
  expect(told).toMatchObject({ width: 1280, height: 720, codec: 'h264', lost_frames: 0 })
  expect(told.audio_packets).toBeGreaterThan(0)
  expect(told.frames).toBe(seen.frames)
  expect(told.latency_ms.p50).toBeGreaterThan(0)
  expect(told.time_to_first_frame_ms).toBeGreaterThan(0)

  // The desktop comes first; from the player's first picture on, each frame carries a higher number than the one before.
  const numbers = await drawnNumbers(record)
  const first = numbers.findIndex(number => number !== null && number > 0 && number < 600)
  expect(first, 'the first picture of the player').toBeGreaterThanOrEqual(0)
  const moved = numbers.slice(first)
  expect(moved.length).toBeGreaterThan(200)
  expect(moved.filter(number => number === null)).toEqual([])
  const drops = moved.filter((number, i) => i > 0 && (number as number) < (moved[i - 1] as number))
  expect(drops).toEqual([])
})

test('a still test card in the stream matches a screenshot of the display', async () => {
  const [record, shot] = [join(folder, 'still.mkv'), join(folder, 'still.png')]
  const watching = startViewer(
    identity,
    'stream',
    target(),
    '--mode',
    '1280x720@60',
    '--seconds',
    '6',
    '--record',
    record,
  )
  const ended = new Promise<number | null>(resolve => watching.once('exit', resolve))
  const display = await streamedDisplay(host)
  const card = spawn(player, ['--card'], {
    env: { ...process.env, ...display.env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await new Promise(resolve => card.stdout?.once('data', resolve))
  await sleep(1500)
  await screenshot(display, shot)
  expect(await ended, watching.text()).toBe(0)
  card.kill()
  expect(await psnrOfLastFrame(record, shot)).toBeGreaterThanOrEqual(35)
})

test('typed text reaches the terminal, which is neither root nor able to read the config folder', async () => {
  const watching = startViewer(
    identity,
    ...['stream', target(), '--mode', '1280x720@60', '--seconds', '8'],
    ...[
      '--type',
      `id -u > typed; cat ${host.configDir}/mgmt-token > token 2>&1; env > environment; echo done >> typed\n`,
    ],
  )
  const ended = new Promise<number | null>(resolve => watching.once('exit', resolve))
  const display = await streamedDisplay(host)
  const home = await until('the session to be at home', () => homeOf(display.pid, display.display))
  const typed = await until('the text to be typed', () => {
    const text = read(join(home, 'typed'))
    return text?.includes('done') ? text : undefined
  })
  expect(Number(typed.split('\n')[0])).toBeGreaterThan(0)
  const token = readFileSync(join(host.configDir, 'mgmt-token'), 'utf8').trim().split('=').at(-1) as string
  expect(read(join(home, 'token'))).toMatch(/Permission denied|No such file/)
  expect(read(join(home, 'environment'))).not.toContain(token)
  expect(read(join(home, 'environment'))).not.toMatch(/SVC_(MGMT|PLUGIN)_TOKEN|SVC_CONFIG_DIR/)
  expect(await ended, watching.text()).toBe(0)
  await displaysGone()
  await until('the home to go', () => !existsSync(home))
})

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** HOME of the processes of a session, out of the environment of one that shows on its display. */
function homeOf(serverPid: number, display: string): string | undefined {
  for (const pid of xClients(serverPid, display)) {
    const home = read(`/proc/${pid}/environ`)
      ?.split('\0')
      .find(entry => entry.startsWith('HOME='))
    if (home) return home.slice('HOME='.length)
  }
  return undefined
}

function xClients(serverPid: number, display: string): number[] {
  const found: number[] = []
  for (let pid = serverPid + 1; pid < serverPid + 400; pid++)
    if (read(`/proc/${pid}/environ`)?.split('\0').includes(`DISPLAY=${display}`)) found.push(pid)
  return found
}
