// A clock that stands still until a test moves it: for the timers and the time of extensions, and nothing of the host's own.
import { AsyncLocalStorage } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'
import timersModule from 'node:timers'
import promises from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { currentOwner } from '../../kernel/errors.ts'
import { dateAt } from '../realm/globals.ts'

export interface FakeClock {
  /** What extensions see: Unix milliseconds. */
  now(): number
  /**
   * Moves it on by `ms` (0 or more), and runs the timers that fall due on the way, each in its order and at its time.
   * Resolves when they have run; rejects with what one of them threw.
   */
  advance(ms: number): Promise<void>
}

interface Timer {
  at: number
  readonly everyMs: number | undefined
  run(): unknown
}

/** What the host works with: the timers of extensions in other realms, and what time it is there. */
export interface HostClock {
  nowMs(): number
  setTimeout(run: () => unknown, ms: number): unknown
  clearTimeout(timer: unknown): void
  /** Told the time, now and at each change; returns the way back. */
  follow(told: (nowMs: number) => void): () => void
}

const realTimers = { setTimeout, setInterval, clearTimeout, clearInterval }
const real = { ...realTimers, setImmediate, Date }
const { setTimeout: realDelay } = promises
const { timeout: realTimeout } = AbortSignal
const kernel = fileURLToPath(new URL('../../kernel/', import.meta.url))

/** Whose line called the function `below`: the file, or undefined where that cannot be told. */
function callerOf(below: (...args: never[]) => unknown): string | undefined {
  const { stackTraceLimit, prepareStackTrace } = Error
  Error.stackTraceLimit = 1
  Error.prepareStackTrace = (_, sites) => sites[0]?.getFileName()
  const about: { stack?: string } = {}
  Error.captureStackTrace(about, below)
  const { stack } = about
  Object.assign(Error, { stackTraceLimit, prepareStackTrace })
  return stack
}

/** Whether code of an extension is calling, and not the host on its behalf. */
function isExtension(below: (...args: never[]) => unknown): boolean {
  if (currentOwner() === undefined) return false
  const file = (callerOf(below) ?? 'node:').replace(/^file:\/\//, '')
  return !/^node:|\/node_modules\//.test(file) && !file.startsWith(kernel)
}

/** What `setTimeout` returns in Node, as far as extensions have use for it. */
class Handle {
  readonly #stop: (handle: Handle) => void
  constructor(stop: (handle: Handle) => void) {
    this.#stop = stop
  }
  ref = (): this => this
  unref = (): this => this
  hasRef = (): boolean => true
  close = (): this => {
    this.#stop(this)
    return this
  };
  [Symbol.dispose](): void {
    this.#stop(this)
  }
}

let isInstalled = false

/** Puts the clock in place of the globals; one at a time in a process. */
export function installClock(): FakeClock & HostClock & { remove(): void } {
  if (isInstalled) throw new Error('another host of this process has the fake clock; stop that one first')
  isInstalled = true
  let now = real.Date.now()
  const timers = new Map<Handle, Timer>()
  const followers = new Set<(nowMs: number) => void>()

  const start = (run: () => unknown, ms: number, everyMs?: number): Handle => {
    const handle = new Handle(stop)
    const inContext = AsyncLocalStorage.snapshot()
    const least = Math.max(Number(ms) || 0, 1)
    timers.set(handle, {
      at: now + least,
      everyMs: everyMs === undefined ? undefined : least,
      run: () => inContext(run),
    })
    return handle
  }
  const stop = (handle: unknown): void => void timers.delete(handle as Handle)
  const moveTo = (nowMs: number): void => {
    now = nowMs
    for (const told of followers) told(nowMs)
  }
  // What a timer has begun goes on in later turns of the loop.
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 8; turn++) await new Promise(done => real.setImmediate(done))
  }

  type Run = (...args: unknown[]) => unknown
  const either = <F extends (...args: never[]) => unknown>(fake: F, its: (...args: never[]) => unknown) => {
    const patched = (...args: never[]): unknown => (isExtension(patched) ? fake(...args) : its(...args))
    return Object.assign(patched, its)
  }
  const stopper = (its: (timer: never) => void) => (timer: unknown) =>
    timer instanceof Handle ? stop(timer) : its(timer as never)
  const after = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const timer = start(resolve, ms)
      const gone = (): void => {
        stop(timer)
        reject(
          Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
            name: 'AbortError',
          }),
        )
      }
      signal?.addEventListener('abort', gone, { once: true })
    })
  const FakeDate = dateAt(real.Date, below => (isExtension(below) ? now : real.Date.now()))
  const patched = {
    setTimeout: either(
      (run: Run, ms = 0, ...args: unknown[]) => start(() => run(...args), ms),
      real.setTimeout,
    ),
    setInterval: either(
      (run: Run, ms = 0, ...args: unknown[]) => start(() => run(...args), ms, ms),
      real.setInterval,
    ),
    clearTimeout: stopper(real.clearTimeout),
    clearInterval: stopper(real.clearInterval),
  }
  Object.assign(globalThis, patched, { Date: FakeDate })
  Object.assign(timersModule, patched)
  Object.assign(promises, {
    setTimeout: either(
      async (ms = 1, value?: unknown, { signal }: { signal?: AbortSignal } = {}) =>
        after(ms, signal).then(() => value),
      realDelay,
    ),
  })
  syncBuiltinESMExports()
  AbortSignal.timeout = either((ms: number) => {
    const controller = new AbortController()
    start(
      () => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')),
      ms,
    )
    return controller.signal
  }, realTimeout) as typeof AbortSignal.timeout

  return {
    now: () => now,
    nowMs: () => now,
    setTimeout: start,
    clearTimeout: stop,
    follow(told) {
      told(now)
      followers.add(told)
      return () => void followers.delete(told)
    },
    async advance(ms) {
      if (!(ms >= 0)) throw new RangeError(`a clock cannot be moved by ${ms} ms; give 0 or more`)
      const end = now + ms
      for (;;) {
        await settle()
        const [due] = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)
        if (!due) break
        const [handle, timer] = due
        moveTo(Math.max(now, timer.at))
        if (timer.everyMs === undefined) timers.delete(handle)
        else timer.at += timer.everyMs
        await timer.run()
      }
      moveTo(end)
      await settle()
    },
    remove() {
      isInstalled = false
      Object.assign(globalThis, real)
      Object.assign(timersModule, realTimers)
      Object.assign(promises, { setTimeout: realDelay })
      syncBuiltinESMExports()
      AbortSignal.timeout = realTimeout
    },
  }
}
