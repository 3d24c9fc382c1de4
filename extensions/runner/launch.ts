// Starts one unit behind its walls, with its own folder and its own token.
import { type ChildProcess, spawn } from 'node:child_process'
import { chown, rm, stat, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { basename, join, relative } from 'node:path'
import type { CommandContext } from 'svc-host/sdk'
import { memoryOf } from './memory.ts'
import type { Unit } from './units.ts'
import { type Start, startUnwalled } from './unwalled.ts'
import { hasBubblewrap, isRoot, makeOwn, nodeFlags, openWalls, programPath } from './walls.ts'

const heapMb = 256
const usualMemoryMb = 512
const lookMs = 500

export interface LaunchOptions {
  readonly configDir: string
  /** Gives the command line of a process behind walls. */
  readonly jailed: CommandContext['jailed']
  /** A folder that is closed to everybody else, for the socket files. */
  readonly socketsDir: string
  /** All that it and what it starts may have in memory; default 512. */
  readonly memoryMb?: number | undefined
  /** A word about this unit for the log. */
  note(text: string): void
}

export interface UnitProcess {
  readonly child: ChildProcess
  /** Lines both ways, one JSON value each. */
  readonly channel: Socket
  /** Resolves when it has ended and all that it was given is closed. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
  /** Ends it and everything that it has started. */
  kill(): void
}

/** Its folder that lasts, with its token in it; both are the account's that it runs as. */
async function prepareState(configDir: string, id: string, token: string): Promise<string> {
  const folder = await makeOwn(join(configDir, 'plugin-state', id))
  const file = join(folder, '.plugin-token')
  // Anew, so that what the unit may have put there is not followed.
  await rm(file, { recursive: true, force: true })
  await writeFile(file, `SVC_PLUGIN_TOKEN=${token}\n`, { mode: 0o600, flag: 'wx' })
  const { uid, gid } = await stat(folder)
  if (isRoot()) await chown(file, uid, gid)
  return folder
}

async function startWalled(unit: Unit, state: string, options: LaunchOptions): Promise<Start> {
  const { configDir, jailed, socketsDir, note } = options
  const { id, file, folder, granted } = unit
  const main = folder === undefined ? `/unit/${basename(file)}` : join('/unit', relative(folder, file))
  const own = [folder === undefined ? ([file, main] as const) : ([folder, '/unit'] as const)]
  const { jail, env, close } = await openWalls({ id, granted, configDir, socketsDir, state, own, note })
  try {
    const args = [...nodeFlags(heapMb), programPath('extensions/runner/unit-main'), id, main, '/state']
    const command = await jailed({ command: process.execPath, args, cwd: '/state', jail })
    return { command, env, cwd: '/', close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Starts it; rejects with a sentence where that cannot be done as safely as it has to be. */
export async function launch(unit: Unit, token: string, options: LaunchOptions): Promise<UnitProcess> {
  const { configDir, note, memoryMb = usualMemoryMb } = options
  const state = await prepareState(configDir, unit.id, token)
  const isBare = unit.isTrusted && unit.folder !== undefined && !(await hasBubblewrap())
  if (isBare) note('runs without walls, because you trust it: bubblewrap is missing')
  const start = await (isBare
    ? startUnwalled(unit, state, configDir, heapMb)
    : startWalled(unit, state, options))
  const { env, cwd } = start
  const [command = '', ...args] = start.command
  // A group of its own: what is meant for the runner alone must not end a unit before its finalizers have run.
  const child = spawn(command, args, { detached: true, cwd, env, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] })
  const kill = (): void => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // Gone already.
    }
  }
  const watch = setInterval(async () => {
    if (child.pid === undefined || (await memoryOf(child.pid)) < memoryMb * 2 ** 20) return
    note(`it takes over ${memoryMb} MB of memory and is killed`)
    kill()
  }, lookMs)
  const ended = new Promise<{ code: number | null; signal: string | null }>((done, failed) => {
    child.once('error', failed)
    child.once('close', (code, signal) => done({ code, signal }))
  }).finally(() => {
    clearInterval(watch)
    return start.close()
  })
  const channel = child.stdio[3] as Socket
  channel.on('error', () => {})
  return { child, channel, ended, kill }
}
