// Child processes that cannot outlive their owner: recorded before they start, undone even after a crash.
import type { Readable, Writable } from 'node:stream'

/** The system account, made by set-up, that `unprivileged` processes and folders belong to where the host is root. */
export const unprivilegedAccount = 'svc-session'

export interface ProcessSpec {
  readonly command: string
  readonly args?: readonly string[]
  /** The whole environment besides PATH, LANG and the kernel's marker; nothing of the host's is inherited. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /**
   * True: runs in a bubblewrap that hides the config folder and all processes outside, where the host is root as the
   * session account besides; never with new privileges. Rejects with a sentence where neither can be had.
   */
  readonly unprivileged?: boolean
  /** With `unprivileged`: of the folders of all hosts' scopes it sees these alone; default all of them. */
  readonly folders?: readonly string[]
  /** What to do with output: lines to the log at debug level, or streams for the caller. Default `log`. */
  readonly output?: 'log' | 'pipe'
  /** Signal first, then a kill of the whole process group after this long; default 2000 ms. */
  readonly graceMs?: number
  /** Extra descriptors from 3 on: `pipe`s that the caller reads (`stdio[3]`). */
  readonly pipes?: number
}

export interface ManagedProcess {
  readonly pid: number
  /** Resolves when the process has gone; never rejects. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>
  readonly stdin: Writable | null
  readonly stdout: Readable | null
  readonly stderr: Readable | null
  /** The extra pipes asked for, in order. */
  readonly pipes: readonly Readable[]
  /** Ends the process and everything in its group, and strikes the record out; idempotent. */
  stop(): Promise<void>
}
