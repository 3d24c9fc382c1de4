// Sessions as they come and go: how soon the first picture is there, and what memory they leave behind.
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, loadIdentity } from 'svc-host/stream'
import { startViewer, until } from '../harness/host.ts'
import { streamedDisplay, xDisplays } from '../harness/x11.ts'
import { median, monotonicUs, residentMiB, type Target } from './measure.ts'
import { end, startReady } from './process.ts'
import { type Mode, modeName, type Ours } from './stage.ts'

export interface FirstFrame {
  /** From the client's `start` to the first whole picture: what the target is about. */
  readonly startMs: number
  /** The same, with the TLS connection in front of it. */
  readonly connectMs: number
}

/** A client vanishes, and comes back to the display that is kept for it. */
export async function benchFirstFrame(
  { host, identity }: Ours,
  mode: Mode,
  times: number,
  say: (line: string) => void,
): Promise<FirstFrame[]> {
  const figures: FirstFrame[] = []
  const target = { host: '127.0.0.1', port: host.nativePort }
  for (let i = 0; i < times; i++) {
    const address = `127.0.0.1:${host.nativePort}`
    const vanishing = startViewer(identity, 'stream', address, '--mode', modeName(mode), '--no-audio')
    try {
      await streamedDisplay(host)
    } finally {
      await end(vanishing, 'SIGKILL')
    }
    const kept = await until('the display to be kept', () => xDisplays(host.pid)[0])
    await until('the session to end', async () => !(await host.api('GET', '/status')).body.video_streaming)
    const known = await loadIdentity(identity)
    const connectUs = monotonicUs()
    const connection = await connect({ ...target, identity: known, name: 'bench', intent: 'stream' })
    const startUs = monotonicUs()
    const session = await connection.start({ mode: { width: mode.width, height: mode.height, hz: mode.hz } })
    for await (const _ of session.frames) break
    const now = monotonicUs()
    if (xDisplays(host.pid)[0]?.pid !== kept.pid)
      throw new Error('the display that was kept was not used again')
    figures.push({ startMs: (now - startUs) / 1000, connectMs: (now - connectUs) / 1000 })
    say(`first frame on a kept display: ${figures.at(-1)!.startMs.toFixed(0)} ms`)
    await session.close()
    await until('the display to go', () => xDisplays(host.pid).length === 0, 30_000)
  }
  return figures
}

/**
 * Resident memory once a session has gone, MiB: the first takes what stays (code, tables, the allocator's arenas), so
 * what a leak would add shows in the later ones. A moving 1080p picture alone is 8 MiB in each of four slots.
 */
export async function benchMemory(
  { host, identity }: Ours,
  player: string,
  mode: Mode,
  sessions: number,
  say: (line: string) => void,
): Promise<number[]> {
  const after: number[] = []
  for (let i = 0; i < sessions; i++) {
    const address = `127.0.0.1:${host.nativePort}`
    const watching = startViewer(identity, 'stream', address, '--mode', modeName(mode), '--no-audio')
    try {
      const moving = await startReady(player, ['--hz', String(mode.hz)], (await streamedDisplay(host)).env)
      await sleep(1500)
      await end(moving)
    } finally {
      await end(watching)
    }
    await until('the display to go', () => xDisplays(host.pid).length === 0, 30_000)
    await sleep(700)
    after.push(residentMiB(host.pid))
    say(`after session ${i + 1}: ${after.at(-1)!.toFixed(1)} MiB`)
  }
  return after
}

/** What counts as noise: Node's heap, collected when it pleases, moves by as much between two idle readings. */
const noiseMiB = 10

export function sessionsReport(
  mode: Mode,
  first: readonly FirstFrame[] | undefined,
  memory: readonly number[] | undefined,
): { rows: string[][]; targets: Target[] } {
  const rows = [['Sessions', 'mode', 'figures', 'median']]
  const targets: Target[] = []
  const add = (what: string, values: readonly number[], digits: number) =>
    rows.push([
      what,
      modeName(mode),
      values.map(v => v.toFixed(digits)).join(' '),
      median(values).toFixed(digits),
    ])
  if (first) {
    const starts = first.map(({ startMs }) => startMs)
    add('first frame after start, ms', starts, 0)
    add(
      'first frame after connect, ms',
      first.map(({ connectMs }) => connectMs),
      0,
    )
    targets.push({ what: 'first frame on an existing display, ms', measured: median(starts), atMost: 400 })
  }
  if (memory) {
    add('memory after each session, MiB', memory, 1)
    const grown = memory.at(-1)! - memory[0]!
    targets.push({
      what: `memory after ${memory.length} sessions more than after one, MiB`,
      measured: grown,
      atMost: noiseMiB,
    })
  }
  return { rows, targets }
}
