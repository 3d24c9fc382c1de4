// A window to watch in: ffplay or mpv, fed through a pipe.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { StreamError, type VideoCodec } from 'svc-host/stream'

const players: readonly (readonly [program: string, args: (format: string, title: string) => string[]])[] = [
  [
    'ffplay',
    (format, title) => [
      ...[
        '-loglevel',
        'error',
        '-fflags',
        'nobuffer',
        '-flags',
        'low_delay',
        '-framedrop',
        '-probesize',
        '32',
      ],
      ...['-window_title', title, '-f', format, '-i', '-'],
    ],
  ],
  [
    'mpv',
    (format, title) => [
      ...['--no-terminal', '--profile=low-latency', '--untimed', `--title=${title}`],
      ...[`--demuxer-lavf-format=${format}`, '-'],
    ],
  ],
]

export interface Player {
  /** Frames that the player is too slow for are kept by the pipe; true while it takes more. */
  write(data: Buffer): boolean
  /** The user has closed the window. */
  readonly closed: Promise<void>
  close(): void
}

/** Opens the first player found. Throws `bad-argument` when there is none. */
export const openPlayer = (codec: VideoCodec, title: string): Player => {
  const found = players.find(
    ([program]) => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined,
  )
  if (!found) {
    throw new StreamError(
      'bad-argument',
      '--play needs ffplay (Debian: ffmpeg) or mpv, and neither is installed',
    )
  }
  const [program, args] = found
  const child: ChildProcess = spawn(program, args(codec, title), { stdio: ['pipe', 'ignore', 'inherit'] })
  const closed = new Promise<void>(resolve => {
    child.on('exit', () => resolve())
    child.on('error', () => resolve())
  })
  // A window closed in the middle of a write is how watching ends.
  child.stdin?.on('error', () => {})
  return {
    write: data => child.stdin?.write(data) ?? false,
    closed,
    close: () => child.stdin?.end(),
  }
}
