// Several clients: each with its own display, picture and input; two on one display; a third who takes over; those who
// vanish, and those whose address changes.
import { createSocket, type Socket } from 'node:dgram'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Identity, Mode } from '../../sdk/stream/index.ts'
import { type Client, follow, type Happened, makeDevices, watch } from '../harness/clients.ts'
import { fingerprintOf, type HostProcess, run, serve, startViewer, until } from '../harness/host.ts'
import { openRelay } from '../harness/relay.ts'
import { watchStarvation } from '../harness/starvation.ts'
import { lastColour } from '../harness/video.ts'
import { type XDisplay, xDisplays } from '../harness/x11.ts'

const idleTimeoutMs = 1500
const modes: readonly Mode[] = [
  { width: 640, height: 480, hz: 30 },
  { width: 800, height: 600, hz: 30 },
  { width: 1024, height: 768, hz: 60 },
  { width: 1280, height: 720, hz: 60 },
]
const colours = ['#e00000', '#00c000', '#0000f0', '#e0e000'] as const
const modeText = ({ width, height, hz }: Mode): string => `${width}x${height}@${hz}`

let folder: string
let host: HostProcess
let devices: Identity[]
let happened: Happened

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-clients-'))
  const configDir = join(folder, 'config')
  devices = await makeDevices(configDir, folder, ['one', 'two', 'three', 'four', 'five'])
  host = await serve({ configDir, env: { SVC_IDLE_TIMEOUT_MS: String(idleTimeoutMs) } })
  happened = await follow(host)
})
afterEach(async () => {
  await host.api('DELETE', '/session')
  await policy({})
  await host.api('POST', '/display/release')
  await until('no displays', () => xDisplays(host.pid).length === 0)
})
afterAll(async () => {
  happened?.stop()
  await host?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const policy = async (settings: object): Promise<void> => {
  expect((await host.api('PUT', '/display/settings', settings)).status).toBe(200)
}
const rows = async (): Promise<any[]> => (await host.api('GET', '/display/state')).body.displays
const status = async (): Promise<any> => (await host.api('GET', '/status')).body

/** The X display with this screen; every client of a test has a size of its own. */
const displayOf = ({ width, height }: Mode): Promise<XDisplay> =>
  until(`a display of ${width}x${height}`, async () => {
    for (const display of xDisplays(host.pid)) {
      const { out } = await run('xdpyinfo', [], { env: display.env })
      if (out.includes(`${width}x${height} pixels`)) return display
    }
    return undefined
  })

const paint = async ({ env }: XDisplay, colour: string): Promise<void> => {
  const { code, err } = await run('xsetroot', ['-solid', colour], { env })
  expect(code, err).toBe(0)
}
/** What a client sees low on the right, where no window is. */
const seen = async (client: Client): Promise<number[]> => {
  const { width, height } = client.session.started.mode
  return lastColour(client.picture(), { x: width - 40, y: height - 40, size: 32 })
}
const isNear = (colour: readonly number[], wanted: string): boolean => {
  const rgb = [1, 3, 5].map(at => Number.parseInt(wanted.slice(at, at + 2), 16))
  return colour.every((level, i) => Math.abs(level - rgb[i]!) < 40)
}
const sees = (client: Client, colour: string) =>
  until(`${client.id} to see ${colour}`, async () => isNear(await seen(client), colour))

const isTyping = ({ env }: XDisplay) =>
  until('a terminal with the focus', async () => {
    const { out } = await run('xdotool', ['getwindowfocus', 'getwindowname'], { env })
    return out.trim() === 'Terminal'
  })
/** The home of the session on a display. */
const homeOf = ({ pid }: XDisplay): string =>
  readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .find(entry => entry.startsWith('HOME='))!
    .slice('HOME='.length)
/** Runs a line in the terminal of a client. */
const type = async ({ session }: Client, line: string): Promise<void> => {
  session.sendText(line)
  for (const down of [true, false]) session.sendInput({ type: 'key', usage: 40, down })
  await session.inputDone()
}
/** Keycodes that are down. */
const keysDown = async ({ env }: XDisplay): Promise<number[]> => {
  const { out } = await run('xinput', ['--query-state', 'Virtual core XTEST keyboard'], { env })
  return [...out.matchAll(/key\[(\d+)\]=down/g)].map(([, code]) => Number(code))
}
/** Threads of the engine by name. */
const threads = (name: string): number =>
  readdirSync(`/proc/${host.pid}/task`).filter(
    task => readFileSync(`/proc/${host.pid}/task/${task}/comm`, 'utf8').trim() === name,
  ).length

test('two, then four at once: each its own mode, display, picture and input', async () => {
  const clients: Client[] = []
  const displays: XDisplay[] = []
  for (const [from, to] of [
    [0, 2],
    [2, 4],
  ] as const) {
    const more = await Promise.all(
      modes.slice(from, to).map((mode, i) => watch(host, devices[from + i]!, mode)),
    )
    clients.push(...more)
    for (const mode of modes.slice(from, to)) displays.push(await displayOf(mode))
    await Promise.all(displays.map(isTyping))
    expect(clients.map(({ session }) => session.started.mode)).toEqual(modes.slice(0, to))
    expect((await rows()).map(({ client, mode, sessions }) => [client, mode, sessions]).sort()).toEqual(
      clients.map(({ id }, i) => [id, modeText(modes[i]!), 1]).sort(),
    )
    expect(new Set(displays.map(({ display }) => display)).size).toBe(to)
    // Colours turn round from the first look to the second, so that no picture can be left from before.
    const shown = displays.map((_, i) => colours[(i + from) % 4]!)
    await Promise.all(displays.map((display, i) => paint(display, shown[i]!)))
    await Promise.all(clients.map((client, i) => sees(client, shown[i]!)))
    // All type at once.
    await Promise.all(clients.map((client, i) => type(client, `echo client ${i} >> typed-${to}`)))
    const files = displays.map(display => join(homeOf(display), `typed-${to}`))
    await Promise.all(files.map(file => until(`what was typed in ${file}`, () => existsSync(file))))
    expect(files.map(file => readFileSync(file, 'utf8'))).toEqual(files.map((_, i) => `client ${i}\n`))
  }
  expect([threads('svc-capture'), threads('svc-send')]).toEqual([4, 4])
  const fifth = watch(host, devices[4]!, modes[0]!)
  await expect(fifth).rejects.toMatchObject({ code: 'busy' })

  // One goes; the others stream on.
  await clients[0]!.session.close()
  await until('three displays', () => xDisplays(host.pid).length === 3)
  await paint(displays[1]!, '#808080')
  await sees(clients[1]!, '#808080')
})

test('under join the second shares display, capture and input in the live mode, with an encoder of its own', async () => {
  await policy({ mode_conflict: 'join', keep_alive: 'off' })
  const first = await watch(host, devices[0]!, modes[1]!)
  // An encoder may run on several threads.
  const oneEncoder = threads('svc-encode')
  const second = await watch(host, devices[1]!, modes[3]!)
  expect(second.session.started.mode).toEqual(modes[1])
  expect(await rows()).toMatchObject([{ slot: expect.any(Number), sessions: 2, mode: modeText(modes[1]!) }])
  expect((await status()).sessions.map((row: any) => [row.client, row.mode, row.join])).toEqual([
    [first.id, modeText(modes[1]!), undefined],
    [second.id, modeText(modes[1]!), true],
  ])
  expect([threads('svc-capture'), threads('svc-input'), threads('svc-send')]).toEqual([1, 1, 2])
  expect(threads('svc-encode')).toBe(2 * oneEncoder)
  expect(oneEncoder).toBeGreaterThan(0)
  const [display] = xDisplays(host.pid)
  expect(xDisplays(host.pid)).toHaveLength(1)
  await isTyping(display!)
  await paint(display!, colours[0])
  await Promise.all([sees(first, colours[0]), sees(second, colours[0])])
  await type(first, 'echo first >> both')
  await type(second, 'echo second >> both')
  const file = join(homeOf(display!), 'both')
  await until('both lines', () => existsSync(file) && readFileSync(file, 'utf8') === 'first\nsecond\n')
  await expect(second.session.resize(modes[3]!)).rejects.toMatchObject({ code: 'mode' })
  await first.session.close()
  await until('one session', async () => (await rows())[0]?.sessions === 1)
  await paint(display!, colours[2])
  await sees(second, colours[2])
  expect(await second.session.resize(modes[3]!)).toEqual(modes[3])
  await second.session.close()
  await until('the display to be gone', () => xDisplays(host.pid).length === 0)
  await until('the end of the second', () => happened.of(second.id).includes('session.ended local'))
  expect(happened.events.findLast(({ kind }) => kind === 'session.ended').summary.join).toBe(true)
})

test('under reject the second is told that the host is busy; under steal it ends the first', async () => {
  await policy({ preset: 'hotdesk' })
  const first = await watch(host, devices[0]!, modes[0]!)
  await expect(watch(host, devices[1]!, modes[1]!)).rejects.toMatchObject({
    code: 'busy',
    message: expect.stringContaining('one at a time'),
  })
  await policy({ mode_conflict: 'steal', keep_alive: 'off' })
  const mark = happened.events.length
  const second = await watch(host, devices[1]!, modes[1]!)
  expect(await first.session.ended).toMatchObject({ code: 'replaced' })
  expect(await rows()).toMatchObject([{ client: second.id, sessions: 1 }])
  expect(happened.of(first.id, mark)).toEqual([
    ...['stream.stopped', 'session.ended host_ended', 'client.disconnected error'],
  ])
})

test('a client that vanishes with a key held is missed in time; its keys go up, those of others stay down', async () => {
  await policy({ mode_conflict: 'join', keep_alive: { mode: 'duration', seconds: 2 } })
  const stays = await watch(host, devices[0]!, modes[1]!)
  stays.session.sendInput({ type: 'key', usage: shiftUsage, down: true })
  await stays.session.inputDone()
  const doomed = startHolding('two')
  const display = await displayOf(modes[1]!)
  await until('both keys to be down', async () => {
    const down = await keysDown(display)
    return down.includes(shiftCode) && down.includes(controlCode)
  })
  const gone = devices[1]!.fingerprint.slice(0, 16)
  const mark = happened.events.length
  const killedMs = performance.now()
  doomed.kill('SIGKILL')
  await until('the key to go up', async () => !(await keysDown(display)).includes(controlCode))
  expect(await keysDown(display)).toContain(shiftCode)
  await until('the events', () => happened.of(gone, mark).length === 3)
  // The time-out, the engine's look at the clock each 100 ms, and what this machine takes for it.
  expect(performance.now() - killedMs).toBeLessThan(idleTimeoutMs + 1500)
  expect(happened.of(gone, mark)).toEqual([
    ...['stream.stopped', 'session.ended lost', 'client.disconnected timeout'],
  ])
  expect(await rows()).toMatchObject([{ sessions: 1, state: 'active' }])
})

test('the display of a client that vanished lingers with no key down, and goes when its time is over', async () => {
  await policy({ keep_alive: { mode: 'duration', seconds: 2 } })
  const mark = happened.events.length
  const doomed = startHolding('three')
  const display = await displayOf(modes[0]!)
  await until('the key to be down', async () => (await keysDown(display)).includes(controlCode))
  // Stopped, not ended: its connection stays open, and only its silence tells.
  doomed.kill('SIGSTOP')
  await until('a lingering display', async () => (await rows())[0]?.state === 'lingering')
  expect(await keysDown(display)).toEqual([])
  expect((await status()).active_sessions).toBe(0)
  await until('no display', async () => (await rows()).length === 0, 5000)
  await until('the event', () =>
    happened.events.slice(mark).some(({ kind, count }) => kind === 'display.released' && count === 1),
  )
  doomed.kill('SIGKILL')
})

test('the address of a client may change in mid-stream: frames and input go on', async () => {
  const nat = await openNat(host.nativePort)
  try {
    const mark = happened.events.length
    const client = await watch(host, devices[0]!, modes[1]!, { mediaPort: nat.port })
    const display = await displayOf(modes[1]!)
    await isTyping(display)
    for (const [i, address] of ['127.0.0.2', '127.0.0.3', '127.0.0.2'].entries()) {
      await nat.move(address)
      await paint(display, colours[i]!)
      await sees(client, colours[i]!)
      await type(client, `echo moved ${i} >> moved`)
      expect(nat.passed()).toBeGreaterThan(0)
    }
    const file = join(homeOf(display), 'moved')
    await until('all lines', () => existsSync(file) && readFileSync(file, 'utf8').split('\n').length === 4)
    // Longer than the time-out: the host has not lost it.
    await sleep(idleTimeoutMs + 300)
    await paint(display, '#ffffff')
    await sees(client, '#ffffff')
    await client.session.close()
    await until('its end', () => happened.of(client.id, mark).includes('session.ended local'))
  } finally {
    nat.close()
  }
})

test('a loss of the last pictures before a still screen is noticed although nothing follows them', async () => {
  const relay = await openRelay(host.nativePort, { delayMs: 20 })
  const starvation = watchStarvation(host.pid)
  try {
    const client = await watch(host, devices[0]!, modes[1]!, { mediaPort: relay.port })
    const display = await displayOf(modes[1]!)
    await isTyping(display)
    let still = { frames: 0, sinceMs: 0 }
    await until('a still screen', () => {
      if (still.frames !== client.frames()) still = { frames: client.frames(), sinceMs: performance.now() }
      return performance.now() - still.sinceMs > 700
    })
    relay.change({ delayMs: 20, losesVideo: true }, 'toClient')
    await paint(display, colours[1])
    // Longer than the host refines a picture: all of them are lost, and it has nothing more to send.
    await sleep(1500)
    expect(client.frames()).toBe(still.frames)
    relay.change({ delayMs: 20 }, 'toClient')
    const aliveMs = performance.now()
    await client.more(1)
    const seenMs = client.newest()!.arrivalUs / 1000
    expect(seenMs - aliveMs - starvation.between(aliveMs, seenMs)).toBeLessThanOrEqual(200)
    await sees(client, colours[1])
    await client.session.close()
  } finally {
    starvation.stop()
    await relay.close()
  }
})

const [shiftUsage, shiftCode, controlCode] = [0xe1, 50, 37]
/** A viewer in a process of its own that holds the left Control key. */
const startHolding = (name: string) => {
  const script = join(folder, 'hold.txt')
  writeFileSync(script, '0 key-down ControlLeft\n')
  const certificate = readFileSync(join(host.configDir, 'native-cert.pem'), 'utf8')
  return startViewer(
    join(folder, name),
    ...['stream', `127.0.0.1:${host.nativePort}`, '--fingerprint', fingerprintOf(certificate)],
    ...['--mode', '640x480@30', '--input', script],
  )
}

/** A way between client and host whose side towards the host can move to another address and port. */
const openNat = async (hostPort: number) => {
  const near = createSocket('udp4')
  await new Promise<void>(resolve => near.bind(0, '127.0.0.1', resolve))
  let client: number | undefined
  let far: Socket | undefined
  let passed = 0
  const move = async (address: string): Promise<void> => {
    const next = createSocket('udp4')
    await new Promise<void>(resolve => next.bind(0, address, resolve))
    next.on('message', datagram => {
      passed++
      if (client !== undefined) near.send(datagram, client, '127.0.0.1')
    })
    // What still comes to the old address is lost, as it is when a phone changes networks.
    far?.close()
    far = next
    passed = 0
  }
  await move('127.0.0.1')
  near.on('message', (datagram, { port }) => {
    client = port
    far?.send(datagram, hostPort, '127.0.0.1')
  })
  return {
    port: near.address().port,
    /** Datagrams that have come to the address of now. */
    passed: () => passed,
    move,
    close: () => {
      near.close()
      far?.close()
    },
  }
}
