// One host per config folder: a lock that the system itself gives back when its holder dies, however it dies.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { messageOf } from './errors.ts'

/**
 * Takes the lock or throws a sentence with the holder's pid. SQLite's exclusive lock is a lock of the system on the
 * file `lock`, so there is nothing stale after a crash, and no moment in which two starters can both win.
 */
export function takeLock(configDir: string): () => void {
  const holderFile = join(configDir, 'lock.pid')
  const database = new DatabaseSync(join(configDir, 'lock'), { timeout: 0 })
  try {
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode !== 5) {
      throw new Error(`the lock of ${configDir} cannot be taken: ${messageOf(error)}`)
    }
    let holder = 'another process'
    try {
      holder = `process ${Number(readFileSync(holderFile, 'utf8'))}`
    } catch {
      // The holder has the lock, but has not written its number yet.
    }
    throw new Error(
      `${configDir} is in use by ${holder}, a svc-host that is running; stop it first, or set SVC_CONFIG_DIR to another folder`,
    )
  }
  writeFileSync(holderFile, `${process.pid}\n`, { mode: 0o600 })
  return () => {
    rmSync(holderFile, { force: true })
    database.close()
  }
}
