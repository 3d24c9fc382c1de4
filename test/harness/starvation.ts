// How long the host's and this process's threads waited for a processor: what a busy neighbour adds to every time that a
// test measures, told by the kernel's scheduler.
import { existsSync, readdirSync, readFileSync } from 'node:fs'

export interface Starvation {
  /** Time that threads stood ready and did not run between two values of `performance.now()`, all added up, milliseconds. */
  between(fromMs: number, toMs: number): number
  stop(): void
}

const everyMs = 20

/** Milliseconds that a thread has waited so far; 0 for one that has gone. */
const waitedMs = (path: string): number => {
  try {
    return Number(readFileSync(`${path}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}
/** The engine's threads of a process: what a picture, an answer or a datagram passes through. */
const engineThreads = (pid: number): string[] =>
  (existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : [])
    .map(thread => `/proc/${pid}/task/${thread}`)
    .filter(path => {
      try {
        return /^svc-(capture|encode|send|receive)/.test(readFileSync(`${path}/comm`, 'utf8'))
      } catch {
        return false
      }
    })

/** Watches from now on: an encoder that is opened anew has other threads, and what the old ones waited still counts. */
export function watchStarvation(hostPid: number): Starvation {
  const waited = new Map<string, number>()
  const total = () => {
    for (const path of [...engineThreads(hostPid), `/proc/${process.pid}/task/${process.pid}`]) {
      waited.set(path, Math.max(waited.get(path) ?? 0, waitedMs(path)))
    }
    return [...waited.values()].reduce((sum, ms) => sum + ms, 0)
  }
  const seen = [{ atMs: performance.now(), waitedMs: total() }]
  const timer = setInterval(() => seen.push({ atMs: performance.now(), waitedMs: total() }), everyMs)
  return {
    between: (fromMs, toMs) => {
      const before = seen.findLast(({ atMs }) => atMs <= fromMs) ?? seen[0]!
      const after = seen.find(({ atMs }) => atMs >= toMs) ?? { waitedMs: total() }
      return after.waitedMs - before.waitedMs
    },
    stop: () => clearInterval(timer),
  }
}
