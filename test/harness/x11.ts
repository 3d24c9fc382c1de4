// Finds and looks at the X displays that a host runs, as root may.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { type HostProcess, run, until } from './host.ts'

export interface XDisplay {
  readonly pid: number
  /** For example `:90`. */
  readonly display: string
  readonly xauthority: string
  /** What an X client needs in its environment. */
  readonly env: Record<string, string>
}

/** The process and all that descend from it. */
export function descendants(of: number): Set<number> {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {} // it has gone meanwhile
  }
  const found = new Set([of])
  for (let grew = true; grew; ) {
    grew = false
    for (const [pid, parent] of parents) if (found.has(parent) && !found.has(pid)) grew = !!found.add(pid)
  }
  return found
}

/** The X servers among the descendants of a host, with their displays. */
export function xDisplays(hostPid: number): XDisplay[] {
  const sockets = new Map<string, string>()
  for (const line of readFileSync('/proc/net/unix', 'utf8').split('\n')) {
    const [, , , , , , inode, path] = line.trim().split(/\s+/)
    const number = path?.match(/\/tmp\/\.X11-unix\/X(\d+)$/)?.[1]
    if (inode && number) sockets.set(`socket:[${inode}]`, `:${number}`)
  }
  const found: XDisplay[] = []
  for (const pid of descendants(hostPid)) {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      if (!/(^|\/)(Xvfb|Xorg)$/.test(argv[0] ?? '')) continue
      const xauthority = argv[argv.indexOf('-auth') + 1]
      let display: string | undefined
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        display ??= sockets.get(readlinkSync(`/proc/${pid}/fd/${fd}`))
      }
      if (display && xauthority && argv.includes('-auth'))
        found.push({ pid, display, xauthority, env: { DISPLAY: display, XAUTHORITY: xauthority } })
    } catch {} // it has gone meanwhile
  }
  return found
}

/** The display of a stream that has begun: by then it has the client's size. */
export async function streamedDisplay(host: HostProcess): Promise<XDisplay> {
  await until('the stream', async () => (await host.api('GET', '/status')).body.video_streaming)
  return until('a display', () => xDisplays(host.pid)[0])
}

/** Takes a picture of the whole display into a PNG file. */
export async function screenshot(display: XDisplay, file: string): Promise<void> {
  const { code, err } = await run('import', ['-silent', '-window', 'root', file], { env: display.env })
  if (code !== 0) throw new Error(`no screenshot of ${display.display}: ${err}`)
}
