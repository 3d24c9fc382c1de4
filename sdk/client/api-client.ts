// The API client over any transport: typed calls, requests of any shape, and the event stream.
import {
  type ApiMethod,
  type ApiPath,
  type CallAnswer,
  type CallArguments,
  fillPath,
  release,
  strangeIn,
} from './call.ts'
import { ApiError } from './errors.ts'
import { type Followed, type FollowOptions, followEvents } from './follow.ts'
import { parseEventStream } from './sse.ts'

/** A connection to one host's API. Requests reject with `ApiError` for refusals. */
export interface ApiClient {
  readonly url: string
  /**
   * Calls a route of this release: `call('DELETE', '/native/clients/{fingerprint}', { path: { fingerprint } })`. The
   * answer is checked: one that this library does not know rejects with `version-skew`.
   */
  call<M extends ApiMethod, P extends ApiPath<M>>(
    method: M,
    path: P,
    ...options: CallArguments<M, P>
  ): Promise<CallAnswer<M, P>>
  /** Follows events through lost connections until `signal` is aborted; from the live tail unless `since` says more. */
  follow(options?: FollowOptions): AsyncIterable<Followed>
  /**
   * Sends any request, such as one of a plugin's route; `path` is relative to `/api/v1`. Resolves to the parsed JSON of a 2xx answer, to its text where
   * it is not JSON, to undefined without a body.
   */
  request<T = unknown>(
    method: string,
    path: string,
    body?: unknown,
    options?: { signal?: AbortSignal },
  ): Promise<T>
  /**
   * Follows `GET /events` over one connection; yields parsed frames with their event name until the stream ends. Ends by itself when
   * `signal` is aborted; throws `ApiError` when the host refuses or the connection breaks.
   */
  events(options?: {
    kinds?: string
    since?: number
    lastEventId?: string
    signal?: AbortSignal
  }): AsyncIterable<{ event: string; id: string | null; data: unknown }>
  close(): void
}

/** An answer whose body has not been read yet. */
export interface RawAnswer {
  readonly status: number
  /** Content type; empty: none. */
  readonly type: string
  readonly body: AsyncIterable<Uint8Array>
}

/** How requests reach the host. */
export interface Transport {
  readonly origin: string
  /** `path` is absolute; `body` is JSON. Rejects with whatever went wrong, or with the signal's reason. */
  send(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<RawAnswer>
  close(): void
}

interface AnyCall {
  readonly path?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** Largest answer that is read whole: 64 MiB. */
const MAX_ANSWER = 64 * 1024 * 1024

export function createClient({ origin, send, close }: Transport): ApiClient {
  const broken = (error: unknown): ApiError => {
    if (error instanceof ApiError) return error
    const what = error instanceof Error ? error.message : String(error)
    const remedy = what.includes('ECONNREFUSED') ? '; no host runs there, start it with svc-host serve' : ''
    return new ApiError('unreachable', `no answer from ${origin}: ${what}${remedy}`, { cause: error })
  }

  const ask = async (
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<RawAnswer> => {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const typed = text === undefined ? headers : { 'content-type': 'application/json', ...headers }
    try {
      return await send(method, `/api/v1${path}`, typed, text, signal)
    } catch (error) {
      throw signal?.aborted ? signal.reason : broken(error)
    }
  }

  /** Reads an answer whole; the text of a refusal becomes the error's message. */
  const read = async (
    answer: RawAnswer,
    signal?: AbortSignal,
  ): Promise<{ status: number; value: unknown }> => {
    const { status, type, body } = answer
    const decoder = new TextDecoder()
    let text = ''
    let size = 0
    try {
      for await (const chunk of body) {
        size += chunk.length
        if (size > MAX_ANSWER) throw new Error('the answer is larger than 64 MiB')
        text += decoder.decode(chunk, { stream: true })
      }
    } catch (error) {
      throw signal?.aborted ? signal.reason : broken(error)
    }
    text += decoder.decode()
    const value = text === '' ? undefined : type.startsWith('application/json') ? parse(text) : text
    if (status >= 200 && status < 300) return { status, value }
    const error = (value as { error?: unknown } | undefined)?.error
    const message = typeof error === 'string' ? error : `the host answered ${status}`
    throw new ApiError(status === 401 ? 'unauthorized' : 'refused', message, { status })
  }

  /** Which release the host is of, it says itself; an answer that is strange is told of even when it does not. */
  const skewed = async (operation: string, strange: string, status: number): Promise<ApiError> => {
    const health = await ask('GET', '/health', {}, undefined, AbortSignal.timeout(2000))
      .then(answer => read(answer))
      .catch(() => undefined)
    const { version = 'another release' } = (health?.value ?? {}) as { version?: string }
    const text = `${operation} answered what this library does not know (${strange}); the library is of ${release}, the host of ${version}`
    return new ApiError('version-skew', `${text}: use the one of the host's release`, { status })
  }

  const client: ApiClient = {
    url: origin,
    // Typed by the interface: the compiler cannot go through all routes for this body.
    call: (async (
      method: ApiMethod,
      path: string,
      { path: parameters, query, body, signal }: AnyCall = {},
    ) => {
      const answer = await ask(method, fillPath(path, parameters, query), {}, body, signal)
      const { status, value } = await read(answer, signal)
      const strange = strangeIn(method, path, status, value)
      if (strange !== undefined) throw await skewed(`${method} ${path}`, strange, status)
      return value
    }) as unknown as ApiClient['call'],
    follow: options => followEvents(client.events, options),
    request: async <T>(
      method: string,
      path: string,
      body?: unknown,
      { signal }: { signal?: AbortSignal } = {},
    ) => (await read(await ask(method, path, {}, body, signal), signal)).value as T,
    events: async function* ({ kinds, since, lastEventId, signal } = {}) {
      const query = new URLSearchParams()
      if (kinds !== undefined) query.set('kinds', kinds)
      if (since !== undefined) query.set('since', String(since))
      const headers = {
        accept: 'text/event-stream',
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      }
      try {
        const path = `/events${query.size ? `?${query}` : ''}`
        const answer = await ask('GET', path, headers, undefined, signal)
        if (answer.status !== 200) await read(answer)
        for await (const frame of parseEventStream(answer.body)) yield { ...frame, data: parse(frame.data) }
      } catch (error) {
        if (signal?.aborted) return
        throw broken(error)
      }
    },
    close,
  }
  return client
}

/** JSON where it is some, the text itself otherwise. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
