// What the language itself does not have and authors expect: timers, a console, abort signals. Made inside an isolate,
// where there is nothing of Node.
import { fetch, Headers, Response } from './fetch.ts'
import { URL, URLSearchParams } from './url.ts'
import { atob, btoa, crypto, structuredClone, TextDecoder, TextEncoder } from './web.ts'

type Listener = ((event: { type: 'abort'; target: Signal }) => void) | { handleEvent(event: object): void }

/** As `AbortSignal` of the web platform, as far as extensions have use for it. */
class Signal {
  aborted = false
  reason: unknown
  onabort: ((event: object) => void) | null = null
  readonly #listeners = new Map<Listener, boolean>()

  addEventListener(type: string, listener: Listener, options?: { once?: boolean } | boolean): void {
    if (type === 'abort') this.#listeners.set(listener, typeof options === 'object' && options.once === true)
  }
  removeEventListener(_type: string, listener: Listener): void {
    this.#listeners.delete(listener)
  }
  throwIfAborted(): void {
    if (this.aborted) throw this.reason
  }
  static abort(reason?: unknown): Signal {
    const controller = new Controller()
    controller.abort(reason)
    return controller.signal
  }
  static any(signals: Iterable<Signal>): Signal {
    const controller = new Controller()
    for (const signal of signals) {
      if (signal.aborted) controller.abort(signal.reason)
      else signal.addEventListener('abort', () => controller.abort(signal.reason), { once: true })
    }
    return controller.signal
  }
  static timeout(ms: number): Signal {
    const controller = new Controller()
    setTimeout(() => controller.abort(named('TimeoutError', `took longer than ${ms} ms`)), ms)
    return controller.signal
  }
  /** For the controller only. */
  static fire(signal: Signal, reason: unknown): void {
    if (signal.aborted) return
    signal.aborted = true
    signal.reason = reason
    const event = { type: 'abort', target: signal } as const
    const listeners: Listener[] = [...signal.#listeners.keys()]
    if (signal.onabort) listeners.unshift(signal.onabort)
    signal.#listeners.clear()
    for (const listener of listeners) {
      try {
        if (typeof listener === 'function') listener(event)
        else listener.handleEvent(event)
      } catch (error) {
        // As an unhandled rejection it is reported, and the other listeners are told all the same.
        void Promise.reject(error)
      }
    }
  }
}

class Controller {
  readonly signal = new Signal()
  abort(reason: unknown = named('AbortError', 'the operation was aborted')): void {
    Signal.fire(this.signal, reason)
  }
}

const named = (name: string, message: string): Error => Object.assign(new Error(message), { name })

/** Where timers really run: at the host, which calls back. */
export interface Clock {
  start(ms: number, repeat: boolean, run: () => unknown): number
  stop(id: number): void
}

/** A `Date` that takes the present from `nowMs`, which is told which function was called. */
export function dateAt(
  real: DateConstructor,
  nowMs: (called: (...args: never[]) => unknown) => number,
): DateConstructor {
  const now = (): number => nowMs(now)
  const construct = (target: DateConstructor, args: unknown[], made: new () => unknown): object =>
    Reflect.construct(target, args.length ? args : [nowMs(construct as never)], made)
  const apply = (): string => new real(nowMs(apply)).toString()
  const get = (target: DateConstructor, key: PropertyKey): unknown =>
    key === 'now' ? now : Reflect.get(target, key)
  return new Proxy(real, { construct: construct as never, apply, get })
}

type Say = (level: 'debug' | 'info' | 'warn' | 'error', message: string) => void

export function installGlobals(clock: Clock, say: Say): void {
  type Run = (...args: unknown[]) => unknown
  const start =
    (repeat: boolean) =>
    (run: Run, ms = 0, ...args: unknown[]): number =>
      clock.start(Number(ms) || 0, repeat, () => run(...args))
  const stop = (id: unknown): void => {
    if (typeof id === 'number') clock.stop(id)
  }
  const print =
    (level: Parameters<Say>[0]) =>
    (...parts: unknown[]): void =>
      say(level, parts.map(part => (typeof part === 'string' ? part : describe(part))).join(' '))
  Object.assign(globalThis, {
    setTimeout: start(false),
    setInterval: start(true),
    clearTimeout: stop,
    clearInterval: stop,
    queueMicrotask: (run: () => void) => void Promise.resolve().then(run),
    AbortController: Controller,
    AbortSignal: Signal,
    console: {
      log: print('info'),
      info: print('info'),
      debug: print('debug'),
      warn: print('warn'),
      error: print('error'),
    },
    fetch,
    Headers,
    Response,
    URL,
    URLSearchParams,
    TextEncoder,
    TextDecoder,
    atob,
    btoa,
    crypto,
    structuredClone,
  })
}

/** A value as a line of log shows it. */
export function describe(value: unknown): string {
  if (value instanceof Error) return value.stack ?? `${value.name}: ${value.message}`
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return Object.prototype.toString.call(value)
  }
}
