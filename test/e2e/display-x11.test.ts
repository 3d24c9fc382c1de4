// Headless X displays for real: sizes, separation, the rights of what runs on them, and that nothing is left.
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type DisplayLease, DisplayPool } from 'svc-host/api/displays'
import type { Mode } from 'svc-host/api/media'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'

const run = promisify(execFile)
const hd: Mode = { width: 1280, height: 720, hz: 60 }
const fullHd: Mode = { width: 1920, height: 1080, hz: 60 }

let host: TestHost
beforeEach(async () => {
  host = await startHost({ extensions: ['displays', 'display-x11'], config: { 'display-x11': {} } })
})
afterEach(() => host.stop())

const acquire = (mode: Mode = hd, client = 'ab'): Promise<DisplayLease> =>
  host
    .service(DisplayPool)!
    .acquire({ mode, plane: 'native', fingerprint: client.repeat(32), client: client.repeat(8) })

interface X11Picture {
  readonly kind: 'x11'
  readonly display: string
  readonly xauthority: string
}
const pictureOf = (lease: DisplayLease): X11Picture => {
  if (lease.picture.kind !== 'x11') throw new Error(`expected an X11 picture, got ${lease.picture.kind}`)
  return lease.picture
}
const environmentOf = ({ display, xauthority }: X11Picture) => ({
  PATH: '/usr/bin:/bin',
  DISPLAY: display,
  XAUTHORITY: xauthority,
})

const onDisplay = async (picture: X11Picture, command: string, ...args: string[]): Promise<string> =>
  (await run(command, args, { env: environmentOf(picture), timeout: 10_000 })).stdout

const sizeOf = async (lease: DisplayLease): Promise<string> =>
  /dimensions:\s+(\d+x\d+)/.exec(await onDisplay(pictureOf(lease), 'xdpyinfo'))![1]!

/** Every process with this text in its environment: what belongs to a display names its folder there. */
const processesOf = (text: string): number[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(text)
      } catch {
        return false
      }
    })
    .map(Number)

const nameOf = (pid: number): string => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
const environOf = (pid: number): Record<string, string> =>
  Object.fromEntries(
    readFileSync(`/proc/${pid}/environ`, 'utf8')
      .split('\0')
      .filter(Boolean)
      .map(entry => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
  )

const until = async <T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
): Promise<T> => {
  for (let i = 0; i < 200; i++) {
    const seen = await look()
    if (seen) return seen
    await delay(50)
  }
  throw new Error(`waited 10 s in vain: ${what}`)
}

/** The shell in the terminal, once there is one. */
const shellOf = (picture: X11Picture): Promise<number> =>
  until('a shell in the terminal', () =>
    processesOf(`XAUTHORITY=${picture.xauthority}`).find(
      pid => existsSync(`/proc/${pid}`) && nameOf(pid) === 'bash',
    ),
  )

const terminalIsFocused = (picture: X11Picture): Promise<boolean> =>
  until('a terminal with the focus', async () => {
    const name = await onDisplay(picture, 'xdotool', 'getwindowfocus', 'getwindowname').catch(() => '')
    return name.trim() === 'Terminal'
  })

interface Traces {
  readonly folders: string[]
  readonly socket: string
  readonly xauthority: string
  readonly xPid: number
}
const tracesOf = (lease: DisplayLease): Traces => {
  const { display, xauthority } = pictureOf(lease)
  const folder = xauthority.slice(0, xauthority.lastIndexOf('/'))
  const xPid = [...readdirSync('/proc')]
    .filter(name => /^\d+$/.test(name))
    .find(pid => {
      try {
        return (
          readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('Xvfb\0') &&
          readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(xauthority)
        )
      } catch {
        return false
      }
    })
  const environ = environOf(Number(xPid))
  return {
    folders: [folder, environ['HOME']!, environ['XDG_RUNTIME_DIR']!],
    socket: `/tmp/.X11-unix/X${display.slice(1)}`,
    xauthority,
    xPid: Number(xPid),
  }
}

const expectGone = ({ folders, socket, xauthority }: Traces): void => {
  expect(folders.filter(existsSync)).toEqual([])
  expect(existsSync(socket)).toBe(false)
  expect(existsSync(socket.replace('.X11-unix/X', '.X').concat('-lock'))).toBe(false)
  expect(folders.flatMap(processesOf)).toEqual([])
  expect(processesOf(xauthority)).toEqual([])
}

test('the screen is exactly the mode, through resizes and beyond the start', async () => {
  const lease = await acquire()
  expect(await sizeOf(lease)).toBe('1280x720')
  await lease.resize(fullHd)
  expect(await sizeOf(lease)).toBe('1920x1080')
  expect(lease.mode).toEqual(fullHd)
  await lease.resize({ width: 720, height: 1280, hz: 120 })
  expect(await sizeOf(lease)).toBe('720x1280')
  await lease.resize(hd)
  expect(await sizeOf(lease)).toBe('1280x720')
  await expect(lease.resize({ width: 7680, height: 4320, hz: 60 })).rejects.toThrow(
    'cannot be 7680x4320: its X server was started for 3840x2160 at most; raise maxWidth and maxHeight',
  )
  expect(await sizeOf(lease)).toBe('1280x720')
  const row = (await host.inject('GET', '/display/state')).json.displays[0]
  expect(row).toMatchObject({ backend: 'x11', mode: '1280x720@60' })
})

test('a display may start larger than the usual maximum', async () => {
  const lease = await acquire({ width: 5120, height: 2160, hz: 60 })
  expect(await sizeOf(lease)).toBe('5120x2160')
})

test('two at once are two: neither opens the other, and without a cookie nobody opens either', async () => {
  const [a, b] = (await Promise.all([acquire(hd, 'ab'), acquire(fullHd, 'cd')])).map(pictureOf)
  expect(a!.display).not.toBe(b!.display)
  const open = (display: string, xauthority: string) =>
    onDisplay({ kind: 'x11', display, xauthority }, 'xdpyinfo')
  expect(await open(a!.display, a!.xauthority)).toContain('1280x720')
  expect(await open(b!.display, b!.xauthority)).toContain('1920x1080')
  await expect(open(a!.display, b!.xauthority)).rejects.toThrow('unable to open display')
  await expect(open(b!.display, '/nonexistent')).rejects.toThrow('unable to open display')
  // Nothing that other accounts can see names a cookie.
  const cookie = readFileSync(a!.xauthority).subarray(-16).toString('hex')
  for (const pid of processesOf(a!.xauthority)) {
    expect(
      readFileSync(`/proc/${pid}/cmdline`, 'latin1') + readFileSync(`/proc/${pid}/environ`, 'latin1'),
    ).not.toContain(cookie)
  }
})

test('what is typed arrives in the terminal, which can neither act as root nor read the config folder', async () => {
  const lease = await acquire()
  const picture = pictureOf(lease)
  const pid = await shellOf(picture)
  await terminalIsFocused(picture)

  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
  if (process.getuid!() === 0) {
    expect(statSync(`/proc/${pid}`).uid).toBe(Number(execFileSync('id', ['-u', 'svc-session']).toString()))
    expect(status).toMatch(/^CapEff:\s+0+$/m)
    expect(status).toMatch(/^CapBnd:\s+0+$/m)
  }
  const environ = environOf(pid)
  expect(JSON.stringify(environ)).not.toContain(host.adminToken)
  expect(Object.keys(environ).filter(key => key.startsWith('SVC_') && key !== 'SVC_EFFECT_MARKER')).toEqual(
    [],
  )
  expect(environ['HOME']).not.toContain(host.configDir)

  const command = `cat ${host.configDir}/mgmt-token > seen 2> refused; echo done > finished`
  await onDisplay(picture, 'xdotool', 'type', '--delay', '2', command)
  await onDisplay(picture, 'xdotool', 'key', 'Return')
  const home = environ['HOME']!
  await until('the typed command to have run', () => existsSync(`${home}/finished`))
  expect(readFileSync(`${home}/seen`, 'utf8')).toBe('')
  expect(readFileSync(`${home}/refused`, 'utf8')).toMatch(/Permission denied|No such file/)
})

test('one session sees nothing of another: no home, no cookie, no process, no display', async () => {
  const [mine, other] = await Promise.all([acquire(hd, 'ab'), acquire(hd, 'cd')])
  const [picture, foreign] = [pictureOf(mine), pictureOf(other)]
  const [pid, foreignShell] = [await shellOf(picture), await shellOf(foreign)]
  await terminalIsFocused(picture)
  const [home, foreignHome] = [environOf(pid)['HOME']!, environOf(foreignShell)['HOME']!]
  // Which account runs it is not what keeps them apart: as root all sessions have the same.
  expect(statSync(home).uid).toBe(statSync(foreignHome).uid)
  writeFileSync(
    `${home}/look`,
    `ls ${foreignHome} && echo home
cat ${foreign.xauthority} && echo cookie
DISPLAY=${foreign.display} XAUTHORITY=${foreign.xauthority} xdpyinfo && echo opened
DISPLAY=${foreign.display} xdpyinfo && echo opened
cat /proc/*/environ | tr '\\0' '\\n' | grep ${foreignHome} && echo environment
ls -d /proc/[0-9]*/root${foreignHome} && echo root
DISPLAY=${picture.display} xdpyinfo > /dev/null && echo own display
touch ${home}/own && echo own home
`,
  )
  await onDisplay(
    picture,
    'xdotool',
    'type',
    '--delay',
    '2',
    'sh look > told 2> refused; echo done > finished',
  )
  await onDisplay(picture, 'xdotool', 'key', 'Return')
  await until('the typed command to have run', () => existsSync(`${home}/finished`))
  expect(readFileSync(`${home}/told`, 'utf8'), readFileSync(`${home}/refused`, 'utf8')).toBe(
    'own display\nown home\n',
  )
})

test('a released display leaves no process, no socket, no lock and no folder', async () => {
  const lease = await acquire()
  await terminalIsFocused(pictureOf(lease))
  const traces = tracesOf(lease)
  expect(traces.folders.every(existsSync)).toBe(true)
  await lease.release({ deliberate: true })
  expectGone(traces)
})

test('an X server that is killed: those who hold it are told, and all that ran on it goes', async () => {
  const lease = await acquire()
  await shellOf(pictureOf(lease))
  const traces = tracesOf(lease)
  process.kill(traces.xPid, 'SIGKILL')
  await lease.lost
  await until('everything to be gone', () => !traces.folders.some(existsSync))
  await lease.release({ deliberate: false })
  expectGone(traces)
  expect((await host.inject('GET', '/display/state')).json).toEqual({ displays: [] })
  expect((await acquire()).slot).toBe(2)
})

test('a client that comes back finds its desktop as it left it', async () => {
  const lease = await acquire()
  const shell = await shellOf(pictureOf(lease))
  await lease.release({ deliberate: false })
  const again = await acquire()
  expect([again.slot, pictureOf(again)]).toEqual([lease.slot, pictureOf(lease)])
  expect(nameOf(shell)).toBe('bash')
})

test('a window manager that dies comes back; a terminal that is closed does not take the desktop along', async () => {
  const lease = await acquire()
  const picture = pictureOf(lease)
  const shell = await shellOf(picture)
  await terminalIsFocused(picture)
  const managers = () =>
    processesOf(picture.xauthority).filter(pid => existsSync(`/proc/${pid}`) && nameOf(pid) === 'openbox')
  const [first] = managers()
  process.kill(first!, 'SIGKILL')
  await until('a new window manager', () => managers().some(pid => pid !== first))
  process.kill(shell, 'SIGHUP')
  await until('the terminal to be gone', () => !existsSync(`/proc/${shell}`))
  expect(await sizeOf(lease)).toBe('1280x720')
  expect((await host.inject('GET', '/display/state')).json.displays).toHaveLength(1)
})

test('switching the extension off ends its displays and says so; on again makes new ones', async () => {
  const lease = await acquire()
  await shellOf(pictureOf(lease))
  const traces = tracesOf(lease)
  await host.extensions.enable('display-x11', false)
  await lease.lost
  expectGone(traces)
  await expect(acquire()).rejects.toThrow('no extension that makes displays is on')
  await host.extensions.enable('display-x11', true)
  expect(await sizeOf(await acquire())).toBe('1280x720')
})

test('none of the descriptors of the host reach the session', async () => {
  const lease = await acquire()
  const pid = await shellOf(pictureOf(lease))
  const open = readdirSync(`/proc/${pid}/fd`).map(fd => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`)
    } catch {
      return ''
    }
  })
  expect(open.filter(target => target.startsWith(host.configDir))).toEqual([])
})
