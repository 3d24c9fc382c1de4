// Calls that extensions make to the API from inside: the same routes and the same checks as for what comes over a connection.
import { AsyncLocalStorage } from 'node:async_hooks'
import { HttpError, type Route } from 'svc-host/sdk'
import { messageOf } from './errors.ts'
import type { Generation } from './generation.ts'
import type { Tally } from './tally.ts'

const limitMs = 30_000
/** Calls of one extension under way. */
const atOnce = 64

/** What an extension calls the API with; `signal` cuts the call. */
export type Call = (
  extension: string,
  signal: AbortSignal,
  method: Route['method'],
  path: string,
  body?: unknown,
) => Promise<unknown>

const insider = new AsyncLocalStorage<string>()

/** The extension whose call is being looked at; nothing that comes over a connection can set it. */
export const insideCaller = (): string | undefined => insider.getStore()

/** Where `path` leads; a path that climbs out of the API is refused, however it is written. */
function urlOf(path: string): string {
  const base = 'https://localhost/api/v1'
  const url = path.startsWith('/') && URL.canParse(base + path) ? new URL(base + path) : undefined
  if (url?.pathname.startsWith('/api/v1/')) return url.pathname + url.search
  throw new HttpError(400, `"${path.slice(0, 80)}" is no path of the API; write it as /status`)
}

export function createCalls(live: () => Generation | undefined, everything: Tally): Call {
  const underWay = new Map<string, number>()
  return async (extension, signal, method, path, body) => {
    const generation = live()
    const count = underWay.get(extension) ?? 0
    if (!generation) throw new HttpError(503, 'the host is starting')
    if (count >= atOnce) throw new HttpError(429, `${extension} has ${atOnce} calls under way; wait for some`)
    const url = urlOf(path)
    const cut = new AbortController()
    const tallies = [generation.open, everything].map(tally => tally.add(() => cut.abort()))
    underWay.set(extension, count + 1)
    try {
      const either = AbortSignal.any([signal, cut.signal, AbortSignal.timeout(limitMs)])
      const { status, type, text } = await insider.run(extension, () =>
        generation.inject({ method, url, body, signal: either }).catch(error => {
          throw new HttpError(503, `${method} ${path} was cut: ${messageOf(error)}`)
        }),
      )
      const value = type.includes('json') && text !== '' ? JSON.parse(text) : text || undefined
      if (status >= 400) throw new HttpError(status, value?.error ?? `${method} ${path} answered ${status}`)
      return value
    } finally {
      for (const done of tallies) done()
      const left = underWay.get(extension)! - 1
      if (left) underWay.set(extension, left)
      else underWay.delete(extension)
    }
  }
}
