// The API client: REST over HTTPS with the host's certificate pinned.
import type { ClientRequest, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { type ConnectOptions, findAccess } from './access.ts'
import {
  type ApiMethod,
  type ApiPath,
  type CallAnswer,
  type CallArguments,
  checkAnswer,
  fillPath,
} from './call.ts'
import { ApiError } from './errors.ts'
import { type Followed, type FollowOptions, followEvents } from './follow.ts'
import { type Pin, PinnedAgent } from './pin.ts'
import { parseEventStream } from './sse.ts'

export { type ConnectOptions, readLineValue } from './access.ts'
export type { ApiMethod, ApiPath, CallAnswer, CallArguments, CallOptions } from './call.ts'
export { ApiError, type ApiErrorCode } from './errors.ts'
export type { EventEnvelope, Followed, FollowOptions, HostEvent } from './follow.ts'
export type { Pin } from './pin.ts'
export { parseEventStream, type ServerSentEvent } from './sse.ts'

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

export type ApiOptions = Pin & {
  /** Base URL of the host, such as `https://127.0.0.1:47990`. */
  readonly url: string
  /** Sent as the bearer; left out, only open routes answer. */
  readonly token?: string
}

/** Largest answer that is read whole: 64 MiB. */
const MAX_ANSWER = 64 * 1024 * 1024

/** Opens the API of the host that options, environment and config folder name; see `ConnectOptions` for the order. */
export async function connect(options: ConnectOptions = {}): Promise<ApiClient> {
  return openApi(await findAccess(options))
}

/** Opens the API of one host. Connections are made when they are needed. */
export function openApi(options: ApiOptions): ApiClient {
  const agent = new PinnedAgent(options)
  const { origin } = new URL(options.url)

  const send = (
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: unknown,
    signal?: AbortSignal,
  ) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const sent: ClientRequest = request(new URL(`/api/v1${path}`, origin), {
        method,
        agent,
        signal,
        headers: {
          ...(options.token && { authorization: `Bearer ${options.token}` }),
          ...(text !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(text),
          }),
          ...headers,
        },
      })
      sent.once('error', error => reject(signal?.aborted ? signal.reason : broken(error)))
      sent.once('response', resolve)
      sent.end(text)
    })

  const broken = (error: unknown): ApiError => {
    if (error instanceof ApiError) return error
    const what = error instanceof Error ? error.message : String(error)
    return new ApiError('unreachable', `no answer from ${origin}: ${what}`, { cause: error })
  }

  /** Reads an answer whole; the text of a refusal becomes the error's message. */
  const read = async (
    response: IncomingMessage,
    signal?: AbortSignal,
  ): Promise<{ status: number; value: unknown }> => {
    const chunks: Buffer[] = []
    let size = 0
    try {
      for await (const chunk of response) {
        size += chunk.length
        if (size > MAX_ANSWER) throw new Error('the answer is larger than 64 MiB')
        chunks.push(chunk)
      }
    } catch (error) {
      throw signal?.aborted ? signal.reason : broken(error)
    }
    const text = Buffer.concat(chunks).toString('utf8')
    const isJson = response.headers['content-type']?.startsWith('application/json')
    const value = text === '' ? undefined : isJson ? parse(text) : text
    const status = response.statusCode!
    if (status >= 200 && status < 300) return { status, value }
    const error = (value as { error?: unknown } | undefined)?.error
    const message = typeof error === 'string' ? error : `the host answered ${status}`
    throw new ApiError(status === 401 ? 'unauthorized' : 'refused', message, { status })
  }

  const client: ApiClient = {
    url: origin,
    call: async (method, path, ...[options]) => {
      const {
        path: parameters,
        query,
        body,
        signal,
      } = (options ?? {}) as {
        path?: Record<string, unknown>
        query?: Record<string, unknown>
        body?: unknown
        signal?: AbortSignal
      }
      const response = await send(method, fillPath(path, parameters, query), {}, body, signal)
      const { status, value } = await read(response, signal)
      checkAnswer(method, path, status, value)
      return value as never
    },
    follow: options => followEvents(client.events, options),
    request: async <T>(
      method: string,
      path: string,
      body?: unknown,
      { signal }: { signal?: AbortSignal } = {},
    ) => (await read(await send(method, path, {}, body, signal), signal)).value as T,
    events: async function* ({ kinds, since, lastEventId, signal } = {}) {
      const query = new URLSearchParams()
      if (kinds !== undefined) query.set('kinds', kinds)
      if (since !== undefined) query.set('since', String(since))
      const headers = {
        accept: 'text/event-stream',
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      }
      try {
        const response = await send(
          'GET',
          `/events${query.size ? `?${query}` : ''}`,
          headers,
          undefined,
          signal,
        )
        if (response.statusCode !== 200) await read(response)
        for await (const frame of parseEventStream(response)) yield { ...frame, data: parse(frame.data) }
      } catch (error) {
        if (signal?.aborted) return
        throw broken(error)
      }
    },
    close: () => agent.destroy(),
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
