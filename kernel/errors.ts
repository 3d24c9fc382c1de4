// Errors of extensions: made exactly where control comes back from extension code, counted and logged in one place.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Log } from 'svc-host/sdk'
import type { z } from 'zod'

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** What went wrong in an extension's code, and during what. */
export class ExtensionError extends Error {
  readonly extension: string
  readonly during: string
  constructor(extension: string, during: string, cause: unknown) {
    super(`[${extension}] ${during}: ${messageOf(cause)}`, { cause })
    this.name = 'ExtensionError'
    this.extension = extension
    this.during = during
  }
}

/** A start that cannot go on because of what the operator wrote: the message names the place and what is expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The issues of a failed parse in one line, each with its path, and once. */
export const explainIssues = ({ issues }: z.ZodError): string => {
  const lines = issues.map(({ path, message }) => (path.length ? `${path.join('.')}: ${message}` : message))
  return [...new Set(lines)].join('; ')
}

const owners = new AsyncLocalStorage<string>()

/** Runs code of an extension, so that whatever it leaves behind can be laid at its door. */
export const runAs = <T>(owner: string, fn: () => T): T => owners.run(owner, fn)

/** The extension whose code is running, also inside `uncaughtException` and `unhandledRejection`. */
export const currentOwner = (): string | undefined => owners.getStore()

/** Where errors of extensions end up. */
export interface Faults {
  report(owner: string, during: string, cause: unknown): ExtensionError
  /** Errors since the start. */
  count(owner: string): number
}

export function createFaults(logOf: (owner: string) => Log): Faults {
  const counts = new Map<string, number>()
  return {
    count: owner => counts.get(owner) ?? 0,
    report(owner, during, cause) {
      counts.set(owner, (counts.get(owner) ?? 0) + 1)
      const error = cause instanceof ExtensionError ? cause : new ExtensionError(owner, during, cause)
      logOf(owner).error(error.message, { during, err: cause })
      return error
    },
  }
}

/** Settles as `work` does, or rejects once `limitMs` have passed. The work itself goes on: nobody can stop a promise. */
export async function within<T>(limitMs: number, work: PromiseLike<T> | T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${limitMs} ms`)), limitMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
