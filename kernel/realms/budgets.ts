// Budgets of extensions beside the host's own process: whoever goes beyond one is slowed down, and given up should that not help.
import { availableParallelism, loadavg } from 'node:os'

export interface Budgets {
  /** Over which is counted, in milliseconds. */
  readonly windowMs: number
  /** In one window. */
  readonly errors: number
  /** Calls at hook points that took longer than the point allows, in one window. */
  readonly lateTaps: number
  /** Of the whole machine, for each processor: where more than this wants to run, nobody is to blame for being late. */
  readonly load: number
  /** Parts of the most that it can have: from 0 to 1. */
  readonly cpuPart: number
  readonly memoryPart: number
}

export const defaultBudgets: Budgets = {
  windowMs: 60_000,
  errors: 300,
  lateTaps: 30,
  load: 1.5,
  cpuPart: 0.8,
  memoryPart: 0.9,
}

/** What it has used and done since it was first seen; memory, and the most that it can have, as they are now. */
export interface Sample {
  readonly errors: number
  readonly lateTaps: number
  readonly cpuMs: number
  readonly memoryBytes: number
  /** Part of one processor. */
  readonly mostCpu: number
  readonly mostBytes: number
}

/** Which budget was exceeded from one sample to the next, by how much, as the end of a sentence; undefined: none. */
export function overdrawn(
  before: Sample,
  now: Sample,
  elapsedMs: number,
  budgets: Budgets,
): string | undefined {
  const span = `within ${Math.max(1, Math.round(elapsedMs / 1000))} s`
  const per = elapsedMs / budgets.windowMs
  const errors = now.errors - before.errors
  if (errors > budgets.errors * per)
    return `made ${errors} errors ${span}, where ${budgets.errors} are allowed`
  const late = now.lateTaps - before.lateTaps
  if (late > budgets.lateTaps * per)
    return `was late at hook points ${late} times ${span}, where ${budgets.lateTaps} are allowed`
  const percent = Math.round(((now.cpuMs - before.cpuMs) / elapsedMs) * 100)
  const percentLimit = Math.round(budgets.cpuPart * now.mostCpu * 100)
  if (percent > percentLimit)
    return `took ${percent} % of a processor ${span}, where ${percentLimit} % are allowed`
  const [memoryMb, limitMb] = [now.memoryBytes, budgets.memoryPart * now.mostBytes].map(bytes =>
    Math.round(bytes / 2 ** 20),
  )
  if (memoryMb! > limitMb!) return `holds ${memoryMb} MB of memory, where ${limitMb} MB are allowed`
  return undefined
}

export interface WatchOptions {
  readonly budgets: Budgets
  /** Aborted: nobody is watched any more. */
  readonly signal: AbortSignal
  /** Those that run, with what they use. */
  look(): Iterable<readonly [owner: string, now: Sample]>
  /** Told when one is slowed down. */
  slowed(owner: string, why: string): void
  /** Told when one goes on beyond its budgets though it was slowed down. */
  giveUp(owner: string, why: string): void
}

/** Looks at everybody once in each window; returns whether one is slowed down now. */
export function watchBudgets({
  budgets,
  signal,
  look,
  slowed,
  giveUp,
}: WatchOptions): (owner: string) => boolean {
  let samples = new Map<string, Sample>()
  const slow = new Set<string>()
  let since = performance.now()
  const timer = setInterval(() => {
    const elapsedMs = performance.now() - since
    since += elapsedMs
    const isBusy = loadavg()[0]! > budgets.load * availableParallelism()
    const next = new Map<string, Sample>()
    for (const [owner, now] of look()) {
      const then = samples.get(owner)
      const before = then && isBusy ? { ...then, lateTaps: now.lateTaps } : then
      const why = before && overdrawn(before, now, elapsedMs, budgets)
      next.set(owner, now)
      if (why === undefined) slow.delete(owner)
      else if (slow.delete(owner)) giveUp(owner, why)
      else {
        slow.add(owner)
        slowed(owner, why)
      }
    }
    samples = next
  }, budgets.windowMs).unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  return owner => slow.has(owner)
}
