// One display: its folders, its X server and the desktop on it; all of it effects of one scope, the server last to go.
import { randomBytes } from 'node:crypto'
import { chown, mkdir, stat, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import type { BackendDisplay, BackendRequest } from 'svc-host/api/displays'
import type { Mode, PictureSource } from 'svc-host/api/media'
import { type Log, type Scope, unprivilegedAccount } from 'svc-host/sdk'
import { desktopFiles } from './desktop.ts'
import { startPrograms } from './programs.ts'
import { startXServer } from './server.ts'
import { cookieBytes, encodeXauthority } from './xauthority.ts'

export interface DesktopOptions {
  /** Shell command of the terminal; `-`: none. */
  readonly terminal: string
  readonly wallpaper: boolean
  /** Pixels; a display that starts larger may be as large as it started. */
  readonly maxWidth: number
  readonly maxHeight: number
}

/** A cookie in a file that only the session and the host can read. */
async function writeXauthority(file: string, home: string, cookie: Uint8Array): Promise<void> {
  await writeFile(file, encodeXauthority(cookie), { mode: 0o400, flag: 'wx' })
  const { uid, gid } = await stat(home)
  if (process.getuid?.() === 0) await chown(file, uid, gid)
}

async function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true, mode: 0o755 })
    await writeFile(path, text, { mode: 0o644 })
  }
}

export async function openDisplay(
  outer: Scope,
  request: BackendRequest,
  options: DesktopOptions,
  log: Log,
): Promise<BackendDisplay> {
  const name = `display ${request.slot}`
  const scope = outer.scope(name)
  try {
    return await open(scope, name, request, options, log)
  } catch (error) {
    await scope.close()
    throw new Error(`${name} cannot be made: ${(error as Error).message}`, { cause: error })
  }
}

async function open(
  scope: Scope & { close(): Promise<void> },
  name: string,
  { mode, prepare }: BackendRequest,
  options: DesktopOptions,
  log: Log,
): Promise<BackendDisplay> {
  // What the host writes lies in a folder that the session can only read: nothing in it can be swapped for a link.
  const [folder, home, runtime] = await Promise.all([
    scope.folder('desktop files', { mode: 0o755 }),
    scope.folder('session home', { unprivileged: true }),
    scope.folder('session runtime', { unprivileged: true }),
  ])
  const xauthority = join(folder, 'Xauthority')
  const cookie = randomBytes(cookieBytes)
  const terminal = options.terminal.trim() === '-' ? undefined : options.terminal
  await Promise.all([
    writeXauthority(xauthority, home, cookie),
    writeFiles(folder, desktopFiles(folder, mode, terminal)),
  ])

  const folders = [folder, home, runtime]
  const user = process.getuid?.() === 0 ? unprivilegedAccount : userInfo().username
  const session = { HOME: home, XDG_RUNTIME_DIR: runtime, USER: user, LOGNAME: user, SHELL: '/bin/bash' }
  // Others get ready while the X server starts, and what they started leaves after it and before the folders.
  const preparing = prepare({ name, env: session, folders })
  await scope.effect('what others add', () => async () => (await preparing).clear())
  const [width, height] = [Math.max(options.maxWidth, mode.width), Math.max(options.maxHeight, mode.height)]
  const server = await startXServer(scope, { cookie, xauthority, env: session, folders, width, height })
  const lost = server.exited.then(async ({ code, signal }) => {
    if (scope.signal.aborted) return
    log.warn(`${name}: its X server ended (${signal ?? code}); what ran on it is taken down`)
    await scope.close()
  })
  await server.setMode(mode)

  const paint = async (mode: Mode): Promise<void> => {
    if (!options.wallpaper) return
    await server.drawWallpaper(mode).catch(error => {
      if (!scope.signal.aborted) log.warn(`${name}: the wallpaper could not be drawn`, { err: error })
    })
  }
  // The picture can start; the desktop appears in it as it comes up.
  void paint(mode)
  const startDesktop = (env: Readonly<Record<string, string>>): void =>
    startPrograms(
      scope,
      { folder, home, folders, terminal, env: { ...env, DISPLAY: server.display, XAUTHORITY: xauthority } },
      (message, error) => log.warn(`${name}: ${message}`, error === undefined ? undefined : { err: error }),
      line => log.debug(line, { process: `${name} window manager` }),
    )
  void preparing.then(({ env }) => scope.signal.aborted || startDesktop(env))

  const picture: PictureSource = { kind: 'x11', display: server.display, xauthority }
  let changing: Promise<void> = Promise.resolve()
  return {
    picture,
    lost,
    async resize(mode) {
      if (mode.width > width || mode.height > height) {
        throw new Error(
          `${name} cannot be ${mode.width}x${mode.height}: its X server was started for ${width}x${height} at most; ` +
            'raise maxWidth and maxHeight in extension-config/display-x11.json, or start again at the larger size',
        )
      }
      const change = changing.then(() => server.setMode(mode))
      changing = change.catch(() => {})
      await change
      void paint(mode)
      return picture
    },
    alive: () => server.isAlive(),
    close: () => scope.close(),
  }
}
