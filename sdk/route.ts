// Routes: one declaration for types, validation, OpenAPI and lane.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { z } from 'zod'

/**
 * Who may call a route; admin is always implied. `open`: no credential. `loopback`: no credential, this machine only.
 * plugin `runner`: the runner's token; `own`: that, and a per-plugin token for its own id (path parameter `id` or
 * `provider`); `all`: both, any id. device `any`: a paired device; `grant`: the handler checks a grant of it.
 */
export type Lanes =
  | 'open'
  | 'loopback'
  | { readonly plugin: false | 'runner' | 'own' | 'all'; readonly device: false | 'any' | 'grant' }

/** Who is calling, as the kernel has established it. */
export type Caller =
  | { readonly lane: 'open' | 'loopback' | 'admin'; readonly address: string }
  | {
      readonly lane: 'plugin'
      readonly address: string /** null: the runner itself */
      readonly id: string | null
    }
  | { readonly lane: 'device'; readonly address: string; readonly fingerprint: string }

type Schema = z.ZodType
type Out<S> = S extends Schema ? z.output<S> : undefined

/** An answer with a status of its own; made by `reply`. */
export interface Reply {
  readonly reply: true
  readonly status: number
  readonly value?: unknown
  readonly headers?: Readonly<Record<string, string>>
}
/** Answers with this status; needed where a route has more than one success status. */
export const reply = (status: number, value?: unknown, headers?: Record<string, string>): Reply => ({
  reply: true,
  status,
  value,
  headers,
})

/** An answer sent piece by piece, with back-pressure; made by `streamReply`. */
export interface StreamReply {
  readonly stream: true
  readonly headers: Readonly<Record<string, string>>
  readonly body: AsyncIterable<string | Uint8Array>
  /** Aborted: the connection is cut at once, whatever the reader has not taken in; for readers too slow to wait for. */
  readonly cut?: AbortSignal | undefined
}
export const streamReply = (
  headers: Record<string, string>,
  body: AsyncIterable<string | Uint8Array>,
  cut?: AbortSignal,
): StreamReply => ({ stream: true, headers, body, cut })

export interface Request<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly headers: IncomingHttpHeaders
  readonly caller: Caller
  /** Aborted when the client has gone or the extension is stopping. */
  readonly signal: AbortSignal
}

/** A route as the kernel keeps it. */
// biome-ignore lint/suspicious/noExplicitAny: routes of every shape lie in one list; `route` has typed each
export interface Route<P = any, Q = any, B = any> {
  readonly method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to `/api/v1`, parameters in braces: `/native/clients/{fingerprint}`. */
  readonly path: string
  /** True: `path` is absolute, outside `/api/v1`. */
  readonly absolute?: boolean
  /** Operation id; absent with `hidden`. */
  readonly id?: string
  readonly tag?: string
  readonly summary: string
  readonly description?: string
  /** True: left out of the OpenAPI document. */
  readonly hidden?: boolean
  readonly lanes: Lanes
  readonly params?: Schema
  readonly query?: Schema
  readonly body?: Schema
  /** True: zero bytes without a content type count as `{}`. */
  readonly emptyBody?: boolean
  /** Status for JSON that does not fit `body`; default 422. */
  readonly invalidBody?: 400 | 422
  /** Largest body in bytes; default 2 MiB. */
  readonly bodyLimit?: number
  /** Success statuses and the schema of their JSON; null: no body. */
  readonly replies?: Readonly<Record<number, Schema | null>>
  /** Content type of a streamed or non-JSON answer; the handler returns `streamReply` or a string. */
  readonly stream?: string
  /** Refusals that the handler may throw as `HttpError`, with what each means. */
  readonly errors?: Readonly<Record<number, string>>
  /** Takes the connection over (kernel realm only); the lane has been checked. */
  readonly upgrade?: (
    request: Request<P, Q, B> & { raw: IncomingMessage; socket: Duplex; head: Buffer },
  ) => void
  readonly handler?: (request: Request<P, Q, B>) => unknown
}

type Answer<R> =
  | { [K in keyof R]: R[K] extends Schema ? z.input<R[K]> : undefined }[keyof R]
  | Reply
  | StreamReply

/** Declares a route. Leaving `lanes` out is an error in types, at load and in the contract test. */
export const route = <
  P extends Schema | undefined = undefined,
  Q extends Schema | undefined = undefined,
  B extends Schema | undefined = undefined,
  R extends Readonly<Record<number, Schema | null>> = Record<number, never>,
>(
  declaration: Omit<Route, 'params' | 'query' | 'body' | 'replies' | 'handler'> & {
    params?: P
    query?: Q
    body?: B
    replies?: R
    handler?: (request: Request<Out<P>, Out<Q>, Out<B>>) => Answer<R> | string | Promise<Answer<R> | string>
  },
): Route => declaration as unknown as Route
