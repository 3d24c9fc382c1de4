// Child processes that cannot outlive their owner: recorded before they start, undone even after a crash.
import type { Readable, Writable } from 'node:stream'
import type { Log } from './extension.ts'
import { token } from './service.ts'

/** The system account, made by set-up, that `unprivileged` processes and folders belong to where the host is root. */
export const unprivilegedAccount = 'svc-session'

/**
 * Walls around a process that runs a stranger's code: its own processes, network and devices, the account without rights where
 * the host is root, limits, and no files but these. Pairs are `[outside, inside]`; what lies outside must be there.
 */
export interface Jail {
  /** Read-only. */
  readonly mounts: readonly (readonly [from: string, to: string])[]
  /** What it may write as well; the account without rights needs the right to. */
  readonly writable?: readonly (readonly [from: string, to: string])[]
  /** Paths inside that show an empty folder, whatever was mounted there. */
  readonly hidden?: readonly string[]
  /** What it may run or load, each with the shared objects that it needs. */
  readonly programs: readonly string[]
  /** Largest file that it may write; default 0: none. */
  readonly fileBytes?: number
  /** Processes and threads that it may have at once; default one process. */
  readonly tasks?: number
}

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
  /** Runs behind these walls, with `cwd` inside; rejects with a sentence where they cannot be had. */
  readonly jail?: Jail
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

/** A package that is to run in a process of its own. */
export interface Guest {
  readonly id: string
  /** Its folder, and its main module in there. */
  readonly folder: string
  readonly main: string
  /** The permissions that the operator has granted it. */
  readonly granted: readonly string[]
  /** Whether the operator trusts it, so that it may run without walls where there are none to be had. */
  readonly isTrusted: boolean
  readonly log: Log
}
export interface GuestProcess {
  /** Its stdin takes packets of the bridge and its first extra pipe gives them; stdout and stderr are the package's own. */
  readonly process: ManagedProcess
  /** Path of the main module as the process sees it. */
  readonly main: string
  /** What the package finds in its environment, and nobody else does. */
  readonly env: Readonly<Record<string, string>>
  readonly hasWalls: boolean
  /** Ends it, and closes what it was given. */
  stop(): Promise<void>
}
/** Starts processes for packages of the process realm; with no provider these wait. */
export interface ProcessRealm {
  start(guest: Guest): Promise<GuestProcess>
}
export const ProcessRealm = token<ProcessRealm>('realm.process', '1.0.0')
