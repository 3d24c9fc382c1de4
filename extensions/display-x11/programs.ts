// What runs on a display: the window manager, kept running, and then a terminal. The display lives without them.
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import type { Scope } from 'svc-host/sdk'
import { keepRunning } from './restart.ts'

/** A terminal without a window manager is better than none. */
const managerLimitMs = 3000
const readyWord = 'svc-ready'

export interface Desktop {
  /** Of the desktop's files; the session can only read it. */
  readonly folder: string
  readonly home: string
  /** All that the session sees of the host's folders: no other session's. */
  readonly folders: readonly string[]
  /** Shell command; undefined: none. */
  readonly terminal: string | undefined
  /** Of every program of the session. */
  readonly env: Readonly<Record<string, string>>
}

/** Returns at once. `onTrouble` and `onLine` get sentences and output for the log. */
export function startPrograms(
  scope: Scope,
  desktop: Desktop,
  onTrouble: (message: string, error?: unknown) => void,
  onLine: (line: string) => void,
): void {
  const { folder, home, terminal } = desktop
  const env = {
    ...desktop.env,
    XDG_DATA_DIRS: `${folder}/share:/usr/local/share:/usr/share`,
    XENVIRONMENT: `${folder}/terminal.resources`,
  }
  const session = { env, cwd: home, unprivileged: true, folders: desktop.folders, graceMs: 1000 } as const
  const managed = Promise.withResolvers<void>()
  const late = setTimeout(managed.resolve, managerLimitMs)
  scope.signal.addEventListener('abort', () => clearTimeout(late))

  const read = (stream: Readable | null): void => {
    if (!stream) return
    const lines = createInterface({ input: stream })
    lines.on('line', line => (line === readyWord ? managed.resolve() : onLine(line.slice(0, 4096))))
  }
  const manager = {
    ...session,
    command: 'openbox',
    // Its start-up command runs once it takes windows; one that comes earlier can stay unmapped for ever.
    args: ['--sm-disable', '--config-file', `${folder}/openbox/rc.xml`, '--startup', `echo ${readyWord}`],
    output: 'pipe',
  } as const
  keepRunning(scope, 'window manager', manager, {
    onStart({ stdout, stderr }) {
      read(stdout)
      read(stderr)
    },
    onTrouble,
  })
  if (terminal === undefined) return

  // The session copies its own files: the host never writes where the session can.
  const script = 'cp -rn "$0/." "$HOME"; exec /bin/sh -c "exec $1"'
  const args = ['-c', script, `${folder}/skeleton`, terminal]
  const startTerminal = async (): Promise<void> => {
    await managed.promise
    clearTimeout(late)
    if (!scope.signal.aborted) await scope.process('terminal', { ...session, command: '/bin/sh', args })
  }
  startTerminal().catch(error => {
    if (!scope.signal.aborted) onTrouble('the terminal cannot be started', error)
  })
}
