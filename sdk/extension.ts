// `defineExtension` and the context: all that an extension can do, each verb undone by the kernel.
import type { z } from 'zod'
import type { EventKind, EventRecord } from './event.ts'
import type { HookPoint } from './hook.ts'
import type { Outside } from './outside.ts'
import type { ManagedProcess, ProcessSpec } from './process.ts'
import type { Route } from './route.ts'
import type { Services, Token } from './service.ts'

/** A log of one extension; each line carries its id. Never log a secret. */
export interface Log {
  debug(message: string, fields?: object): void
  info(message: string, fields?: object): void
  warn(message: string, fields?: object): void
  error(message: string, fields?: object): void
}

type Stop = (() => void | Promise<void>) | undefined | void

/** Labelled effects, undone last-in first-out and each awaited when the scope closes. */
export interface Scope {
  readonly signal: AbortSignal
  /** Runs `start` now and keeps the function it returns as the way back. */
  effect(label: string, start: () => Stop | Promise<Stop>): Promise<void>
  /** A scope inside this one, with a life of its own. */
  scope(label: string): Scope & { close(): Promise<void> }
  provide<T>(token: Token<T>, service: T): void
  /** While the service is there: `start` runs with it, and what it registered on `sub` leaves with it. */
  using<T>(token: Token<T>, start: (service: T, sub: Scope) => void | Promise<void>): void
  route(...routes: Route[]): void
  /** Observes an event kind. A throw is laid at this extension's door and stops nobody. */
  on<P extends object>(kind: EventKind<P>, listener: (event: P & EventRecord) => void | Promise<void>): void
  /** Taps a hook point; lower `order` runs earlier, default 0. */
  tap<I, O>(
    point: HookPoint<I, O>,
    // biome-ignore lint/suspicious/noConfusingVoidType: a tap that only looks returns nothing
    fn: (input: I) => O | undefined | void | Promise<O | undefined | void>,
    o?: { order?: number },
  ): void
  /**
   * A change outside the process: `record` is on disk before `change` runs, and the extension's `undo.ts` takes it
   * back when the scope closes, `undo` is called, or at the next start after a crash.
   */
  durable<T>(
    kind: string,
    record: object,
    change: () => T | Promise<T>,
  ): Promise<{ value: T; undo(): Promise<void> }>
  /** Starts a process as a durable effect of the kernel's own kind. */
  process(label: string, spec: ProcessSpec): Promise<ManagedProcess>
  /** Makes an empty folder under the system's runtime folder, removed with all its content; returns its path. */
  folder(label: string, options?: { unprivileged?: boolean; mode?: number }): Promise<string>
}

/** A versioned settings file, read tolerantly and written atomically; memory changes after the write succeeded. */
export interface DocumentFile<T> {
  readonly value: T
  /** True once the file exists. */
  readonly exists: boolean
  /** One write after the other; a function is given what the writes before it left. */
  write(next: T | ((now: T) => T)): Promise<void>
}

/** Values by key that last: plain JSON, at most 64 KiB each and 1 MiB together; each change is on disk when it resolves. */
export interface KeyValueStorage {
  /** Undefined: there is none. */
  get(key: string): Promise<unknown>
  set(key: string, value: unknown): Promise<void>
  delete(key: string): Promise<void>
  keys(): Promise<readonly string[]>
}

export interface Context<C = unknown> extends Scope, Outside {
  readonly id: string
  readonly version: string
  /** Parsed by the extension's schema and frozen. */
  readonly config: C
  readonly log: Log
  /** Publishes an event of a kind this extension owns; a payload that does not fit its schema throws. */
  emit<P extends object>(kind: EventKind<P>, payload: P): void
  /** Owns a hook point: returns the function that calls the taps. A second owner is an error naming the first. */
  hookPoint<I, O>(point: HookPoint<I, O>): (input: I) => Promise<O>
  /** A settings file `<config>/<name>`: missing or broken reads as what the schema makes of `{}`, with a warning. */
  document<S extends z.ZodType>(name: string, schema: S): Promise<DocumentFile<z.output<S>>>
  /** What this extension keeps, in every realm. */
  readonly storage: KeyValueStorage
  /**
   * Calls the host's own API as this plugin and resolves to the JSON of the answer (undefined: it has none); `path` is
   * relative to `/api/v1`. Rejects with an `HttpError` when it is refused: 403 without `api:<tag of the route>`.
   */
  api<T = unknown>(
    method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
  ): Promise<T>
}

export interface Extension<
  S extends z.ZodType = z.ZodType,
  D extends Record<string, Token<unknown>> = Record<never, never>,
> {
  /** Schema of the config; default an empty object. Defaults live here only. */
  readonly config?: S
  /** Services that must be there; named with their ranges in the manifest. */
  readonly deps?: D
  setup(context: Context<z.output<S>>, services: Services<D>): void | Promise<void>
}

/** Default export of an extension's main module. */
export const defineExtension = <
  S extends z.ZodType = z.ZodType<Record<string, never>>,
  D extends Record<string, Token<unknown>> = Record<never, never>,
>(
  extension: Extension<S, D>,
): Extension<S, D> => extension
