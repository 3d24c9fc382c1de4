// One X server: started as the session's account, answering only to its cookie, at a number that nobody else has.
import { once } from 'node:events'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Mode } from 'svc-host/api/media'
import type { ManagedProcess, Scope } from 'svc-host/sdk'
import { connectX, type XConnection } from './connection.ts'
import { openScreen } from './randr.ts'
import { openWallpaper } from './wallpaper.ts'

const socketFolder = '/tmp/.X11-unix'
/** For the server to be ready, and for each answer of it. */
const startLimitMs = 15_000
const answerLimitMs = 5_000
/** Of a pixel row and of the number that the server tells us. */
const dotsPerInch = 96

export interface XServer {
  /** `:N` */
  readonly display: string
  readonly exited: ManagedProcess['exited']
  setMode(mode: Mode): Promise<void>
  drawWallpaper(mode: Mode): Promise<void>
  /** Whether it still answers. */
  isAlive(): Promise<boolean>
}

export interface XServerOptions {
  readonly cookie: Uint8Array
  readonly xauthority: string
  readonly env: Readonly<Record<string, string>>
  /** All that it sees of the host's folders. */
  readonly folders: readonly string[]
  /** The largest screen that it can have, pixels. */
  readonly width: number
  readonly height: number
}

/** A machine without a login has no such folder yet; the system's own way is to make it so, owned by root. */
async function makeSocketFolder(): Promise<void> {
  if (process.getuid?.() !== 0) return
  const isNew = await mkdir(socketFolder).then(
    () => true,
    () => false,
  )
  if (isNew) await chmod(socketFolder, 0o1777)
}

/** The number of the display, which the server writes once it takes connections. */
async function readNumber(server: ManagedProcess): Promise<number> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), startLimitMs)
  const told = (async () => {
    let text = ''
    for await (const chunk of server.pipes[0]!) {
      text += String(chunk)
      if (text.includes('\n')) break
    }
    return text.trim()
  })()
  const tooLate = new Promise<never>((_, reject) => {
    late.signal.onabort = () =>
      reject(new Error(`the X server was not ready within ${startLimitMs / 1000} s`))
  })
  try {
    const text = await Promise.race([told, tooLate])
    if (/^\d{1,5}$/.test(text)) return Number(text)
    const { code, signal } = await Promise.race([server.exited, tooLate])
    throw new Error(
      `the X server ended (${signal ?? code}) before it was ready; the log at level debug has its output`,
    )
  } finally {
    clearTimeout(timer)
    told.catch(() => {})
  }
}

/** A server that was killed leaves its socket; nobody answers there any more. */
async function removeDeadSocket(path: string): Promise<void> {
  const socket = connect({ path })
  const isDead = await once(socket, 'connect').then(
    () => false,
    error => error.code === 'ECONNREFUSED',
  )
  socket.destroy()
  if (isDead) await rm(path, { force: true })
}

export async function startXServer(scope: Scope, options: XServerOptions): Promise<XServer> {
  await makeSocketFolder()
  const { width, height, xauthority, env, folders, cookie } = options
  let number: number | undefined
  await scope.effect('X socket', () => async () => {
    if (number !== undefined) await removeDeadSocket(`${socketFolder}/X${number}`)
  })
  const process = await scope.process('X server', {
    command: 'Xvfb',
    args: [
      // The server itself looks for a free number, and a number stays its own while it runs.
      ...['-displayfd', '3'],
      ...['-screen', '0', `${width}x${height}x24`, '-dpi', String(dotsPerInch)],
      ...['-auth', xauthority, '-nolisten', 'tcp', '-noreset', '-s', '0'],
    ],
    env,
    unprivileged: true,
    folders,
    pipes: 1,
  })
  number = await readNumber(process)
  const socket = `${socketFolder}/X${number}`

  /** Each use has a connection of its own: nothing stale, and none of the server's few places held. */
  const use = async <T>(task: (x: XConnection) => Promise<T>): Promise<T> => {
    const x = await connectX(socket, cookie, answerLimitMs)
    try {
      return await task(x)
    } finally {
      x.close()
    }
  }
  return {
    display: `:${number}`,
    exited: process.exited,
    setMode: mode => use(async x => (await openScreen(x)).setMode(mode)),
    drawWallpaper: ({ width, height }) => use(async x => (await openWallpaper(x))(width, height)),
    isAlive: () =>
      use(x => x.sync()).then(
        () => true,
        () => false,
      ),
  }
}
