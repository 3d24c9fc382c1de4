// kill -9 in mid-stream: the next start takes back all that was left outside the process, and says so.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { effectsOf, isAlive } from '../harness/effects.ts'
import { type HostProcess, run, serve, startViewer, until, viewer } from '../harness/host.ts'
import { xDisplays } from '../harness/x11.ts'
import { seeded } from '../soak/random.ts'

let folder: string
let hosts: HostProcess[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-chaos-'))
  hosts = []
})
afterEach(async () => {
  for (const host of hosts) await host.stop()
  rmSync(folder, { recursive: true, force: true })
})

const begin = async (options: { mgmtPort?: number; nativePort?: number } = {}) => {
  const host = await serve({ configDir: join(folder, 'config'), ...options })
  hosts.push(host)
  return host
}

// Five moments by a seed: two while the desktop comes up, three while it streams.
const random = seeded(20_261_121)
const moments = [400, 400, 3000, 3000, 3000].map(withinMs => Math.round(random() * withinMs))

test.each(moments)(
  'killed %i ms after the display came up, nothing is left after the next start',
  async delayMs => {
    const first = await begin()
    const identity = join(folder, 'identity')
    const paired = await viewer(identity, 'pair', `127.0.0.1:${first.nativePort}`, '--pin', await first.arm())
    expect(paired.code, paired.err).toBe(0)
    const watching = startViewer(
      identity,
      'stream',
      `127.0.0.1:${first.nativePort}`,
      '--mode',
      '1280x720@60',
      '--seconds',
      '30',
    )
    const display = await until('a display', () => xDisplays(first.pid)[0])
    await sleep(delayMs)
    first.child.kill('SIGKILL')
    await until('the host to be gone', () => first.child.signalCode === 'SIGKILL')
    const { pids: left, folders } = effectsOf(first.configDir)
    expect(folders.length).toBeGreaterThanOrEqual(3)
    // An X server that was not ready yet may have gone with the pipe that it was to tell its number on.
    expect(left.length).toBeGreaterThan(0)

    const second = await begin({ mgmtPort: first.mgmtPort, nativePort: first.nativePort })
    for (const pid of left) expect(isAlive(pid), `process ${pid} outlived the crash`).toBe(false)
    expect(existsSync(display.xauthority)).toBe(false)
    expect(folders.filter(existsSync)).toEqual([])
    expect(existsSync(`/tmp/.X11-unix/X${display.display.slice(1)}`)).toBe(false)
    expect(second.output()).toMatch(/undone|undid/i)
    watching.kill()

    // And it serves as if nothing had been: the same client, still paired, streams.
    const again = await viewer(
      identity,
      'stream',
      `127.0.0.1:${second.nativePort}`,
      '--mode',
      '1280x720@60',
      '--seconds',
      '2',
    )
    expect(again.code, again.err).toBe(0)
  },
)

test('a second host on the same config folder refuses and leaves the first alone', async () => {
  const first = await begin()
  const second = await run(
    process.execPath,
    ['--conditions=svc-source', 'kernel/main.ts', 'serve', '--mgmt-bind', '127.0.0.1:0'],
    {
      env: { SVC_CONFIG_DIR: first.configDir },
    },
  )
  expect(second.code).not.toBe(0)
  expect(second.err + second.out).toContain(String(first.pid))
  expect((await first.api('GET', '/health')).status).toBe(200)
})
