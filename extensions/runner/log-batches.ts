// Takes the runner's lines to the log of the host, many at a time; while no host answers the newest are kept.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Entry } from './lines.ts'

/** Lines of one request (wire-decisions, "Limits"), and how many are kept for a host that does not answer. */
const batchLimit = 256
const keptLimit = 2048
const gatherMs = 100
const retryMs = 2000

export interface LogBatches {
  add(entry: Entry): void
  /** Sends what is left, if a host takes it within this time. */
  close(withinMs: number): Promise<void>
}

/** `send` rejects when the host has not taken them; they are sent again. */
export function createLogBatches(
  send: (entries: readonly Entry[], signal: AbortSignal) => Promise<void>,
): LogBatches {
  const waiting: Entry[] = []
  const ended = new AbortController()
  const dropped = { count: 0 }
  let flight: Promise<void> | undefined

  const pump = async (): Promise<void> => {
    await sleep(gatherMs, undefined, { signal: ended.signal }).catch(() => {})
    while (waiting.length) {
      const batch = waiting.slice(0, batchLimit)
      try {
        await send(batch, ended.signal)
        waiting.splice(0, batch.length)
      } catch {
        if (ended.signal.aborted) return
        await sleep(retryMs, undefined, { signal: ended.signal }).catch(() => {})
      }
      if (dropped.count) {
        const msg = `${dropped.count} lines were lost while no host took them`
        waiting.push({ ts_ms: Date.now(), level: 'WARN', source: 'runner', msg })
        dropped.count = 0
      }
    }
  }
  const start = (): void => {
    flight ??= pump().finally(() => {
      flight = undefined
      if (waiting.length && !ended.signal.aborted) start()
    })
  }
  return {
    add(entry) {
      waiting.push(entry)
      // Those on their way are the oldest; what is dropped comes after them.
      if (waiting.length > keptLimit) {
        waiting.splice(batchLimit, 1)
        dropped.count += 1
      }
      start()
    },
    async close(withinMs) {
      const limit = setTimeout(() => ended.abort(), withinMs)
      await flight
      clearTimeout(limit)
    },
  }
}
