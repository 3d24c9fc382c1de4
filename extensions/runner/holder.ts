// One runner for each config folder: a lock that the system gives back when its holder dies, and the word who it is.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const folderOf = (configDir: string): string => join(configDir, 'plugin-run')
const wordOf = (configDir: string): string => join(folderOf(configDir), 'runner.pid')

/** When a process started, in clock ticks after boot; with the pid it names one process. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

/** The pid of the runner that has this config folder now; undefined: none has. */
export function runnerOf(configDir: string): number | undefined {
  try {
    const [pid, startTime] = readFileSync(wordOf(configDir), 'utf8').trim().split(' ')
    return startTime !== undefined && startTimeOf(Number(pid)) === startTime ? Number(pid) : undefined
  } catch {
    return undefined
  }
}

/** Takes the config folder; rejects with a sentence when another runner has it. Returns the way back. */
export async function takeRunnerLock(configDir: string): Promise<() => void> {
  await mkdir(folderOf(configDir), { recursive: true, mode: 0o700 })
  const database = new DatabaseSync(join(folderOf(configDir), 'runner.lock'), { timeout: 0 })
  try {
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode !== 5) throw error
    const holder = runnerOf(configDir)
    const who = holder === undefined ? 'another runner' : `the runner with pid ${holder}`
    throw new Error(
      `${who} runs the units of ${configDir} already; stop it first (systemctl --user stop svc-scripting, or svc-host)`,
    )
  }
  writeFileSync(wordOf(configDir), `${process.pid} ${startTimeOf(process.pid)}\n`, { mode: 0o600 })
  return () => {
    rmSync(wordOf(configDir), { force: true })
    database.close()
  }
}
