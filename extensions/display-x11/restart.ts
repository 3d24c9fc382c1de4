// Keeps a program running for as long as its scope lives: started again when it ends, later each time it ends soon.
import { setTimeout as delay } from 'node:timers/promises'
import type { ManagedProcess, ProcessSpec, Scope } from 'svc-host/sdk'

const firstDelayMs = 250
const longestDelayMs = 30_000
/** A program that ran this long starts with a clean record. */
const steadyMs = 10_000

/** How long to wait before the next start. */
export const restartDelayMs = (endedSoon: number): number =>
  Math.min(longestDelayMs, firstDelayMs * 2 ** endedSoon)

export interface Watcher {
  /** Each time that it has been started. */
  onStart?(process: ManagedProcess): void
  /** A sentence at each end that nobody asked for, and when it cannot be started at all. */
  onTrouble(message: string): void
}

/** Returns at once. */
export function keepRunning(scope: Scope, label: string, spec: ProcessSpec, watcher: Watcher): void {
  const run = async (): Promise<void> => {
    for (let endedSoon = 0; ; ) {
      const startedMs = performance.now()
      const started = await scope.process(label, spec)
      watcher.onStart?.(started)
      const { code, signal } = await started.exited
      if (scope.signal.aborted) return
      endedSoon = performance.now() - startedMs >= steadyMs ? 0 : endedSoon + 1
      const waitMs = restartDelayMs(endedSoon)
      watcher.onTrouble(`its ${label} ended (${signal ?? code}); it starts again in ${waitMs} ms`)
      await delay(waitMs, undefined, { signal: scope.signal })
    }
  }
  run().catch(error => {
    if (!scope.signal.aborted)
      watcher.onTrouble(`its ${label} cannot be started: ${(error as Error).message}`)
  })
}
