// Timers of an extension behind a bridge: they run at the host, which calls back.
import type { Log } from 'svc-host/sdk'
import type { Cell } from './cell.ts'

const timerLimit = 256
const leastMs = 4

/** Where timers run; `follow` tells of a time that is not the real one, and returns the way back. */
export interface Clock {
  setTimeout(run: () => unknown, ms: number): unknown
  clearTimeout(timer: unknown): void
  follow?(told: (nowMs: number) => void): () => void
}
const realClock: Clock = {
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: timer => clearTimeout(timer as NodeJS.Timeout),
}

export function createTimers(cell: Cell, log: Log, clock: Clock = realClock) {
  const timers = new Map<number, unknown>()
  const unfollow = clock.follow?.(nowMs => cell.tell('time', [nowMs]))
  return {
    start(timer: number, ms: number, repeat: boolean, target: number): void {
      if (timers.size >= timerLimit) throw new Error(`over ${timerLimit} timers run at once; stop some`)
      const wait = Math.min(Math.max(ms, leastMs), 2 ** 31 - 1)
      const fire = async (): Promise<void> => {
        if (!repeat) timers.delete(timer)
        await cell.call(target, []).catch(error => log.error(`timer: ${error.message}`))
        // Only once it is done, so that a slow one cannot pile up.
        if (timers.has(timer)) timers.set(timer, clock.setTimeout(fire, wait))
      }
      timers.set(timer, clock.setTimeout(fire, wait))
    },
    stop(timer: number): void {
      clock.clearTimeout(timers.get(timer))
      timers.delete(timer)
    },
    stopAll(): void {
      for (const timer of timers.values()) clock.clearTimeout(timer)
      unfollow?.()
    },
  }
}
