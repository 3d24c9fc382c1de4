// What durable effects leave to be seen on the machine: marked processes and session folders.
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** Processes that carry the marker of a durable effect. */
export const marked = (): number[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(pid => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes('SVC_EFFECT_MARKER=')
      } catch {
        return false // it has gone meanwhile
      }
    })

/** Folders that hosts have made for sessions. */
export const sessionFolders = (): string[] =>
  existsSync('/run/svc-host') ? readdirSync('/run/svc-host').map(name => `/run/svc-host/${name}`) : []

/** Whether a process is there and no zombie: an orphan's zombie waits for init, and harms nobody. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return false
  }
}

/** What one host's journal tells of, whatever other hosts run beside it. */
export function effectsOf(configDir: string): { pids: number[]; folders: string[] } {
  const journal = readFileSync(`${configDir}/journal`, 'utf8')
  const markers = [...journal.matchAll(/"marker":"([0-9a-f]{32})"/g)].map(([, marker]) => marker!)
  const folders = [...journal.matchAll(/"path":"([^"]+)"/g)].map(([, path]) => path!)
  const pids = marked().filter(pid => {
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, 'latin1')
      return markers.some(marker => environ.includes(`SVC_EFFECT_MARKER=${marker}`))
    } catch {
      return false // it has gone meanwhile
    }
  })
  return { pids, folders: folders.filter(existsSync) }
}
