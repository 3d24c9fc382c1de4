// One request and its answer: validation before the handler, the declared replies and errors after it.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { type Caller, HttpError, isHttpError, type Reply, type Route, type StreamReply } from 'svc-host/sdk'
import { z } from 'zod'
import { runAs } from './errors.ts'
import type { Takeover } from './generation.ts'
import type { OwnedRoute } from './http.ts'

/** Parses what came from outside; the message names the field, never the value. */
function check(schema: z.ZodType, value: unknown, status: number): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const { path, message } = result.error.issues[0]!
  throw new HttpError(status, path.length ? `${z.core.toDotPath(path)}: ${message}` : message)
}

/** Made once: the runtime's own has a stack, which takes longer than many an answer. */
const over = new DOMException('the exchange is over', 'AbortError')

/** Runs the route's handler for one request and sends what it answers. */
export async function answer(
  owned: OwnedRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  takeover: Takeover | undefined,
  report: (error: unknown) => void,
): Promise<unknown> {
  const { route, owner } = owned
  const given = request.body ?? (route.emptyBody ? {} : undefined)
  if (route.body && given === undefined) throw new HttpError(400, 'a JSON body is required')
  const gone = new AbortController()
  const stop = (): void => gone.abort(over)
  const closing = takeover?.socket ?? reply.raw
  owned.signal.addEventListener('abort', stop)
  closing.once('close', () => {
    owned.signal.removeEventListener('abort', stop)
    stop()
  })
  if (owned.signal.aborted) stop()
  const call = {
    params: route.params ? check(route.params, { ...(request.params as object) }, 400) : undefined,
    query: route.query ? check(route.query, { ...(request.query as object) }, 400) : undefined,
    body: route.body ? check(route.body, given, route.invalidBody ?? 422) : undefined,
    headers: request.headers,
    caller,
    signal: gone.signal,
  }
  if (route.upgrade && takeover) {
    reply.raw.detachSocket(takeover.socket as never)
    reply.hijack()
    const { socket, head } = takeover
    return runAs(owner, async () => route.upgrade!({ ...call, raw: request.raw, socket, head })).catch(
      error => {
        socket.destroy()
        report(error)
      },
    )
  }
  if (!route.handler) throw new HttpError(426, 'this path is for connections that upgrade')
  let result: unknown
  try {
    result = await runAs(owner, async () => route.handler!(call))
  } catch (error) {
    if (owned.signal.aborted) throw new HttpError(503, `${owner} is stopping`)
    if (gone.signal.aborted && (error as Error)?.name === 'AbortError') return reply.hijack()
    if (isHttpError(error) && !isDeclared(route, error.status))
      throw new Error(`it refused with ${error.status} (${error.message}), which the route does not declare`)
    throw error
  }
  if (marked(result, 'stream')) return sendStream(owned, reply, result as StreamReply, report)
  return send(route, reply, result)
}

const isDeclared = (route: Route, status: number): boolean =>
  status === 401 || status === 403 || route.errors?.[status] !== undefined

const marked = (value: unknown, key: 'reply' | 'stream'): boolean =>
  typeof value === 'object' && value !== null && (value as Record<string, unknown>)[key] === true

function send(route: Route, reply: FastifyReply, result: unknown): FastifyReply {
  reply.header('cache-control', 'no-store')
  if (route.stream && (typeof result === 'string' || result instanceof Uint8Array))
    return reply.type(route.stream).send(result)
  const only = Number(Object.keys(route.replies ?? {})[0])
  const { status, value, headers } = marked(result, 'reply')
    ? (result as Reply)
    : { status: only, value: result, headers: {} }
  const schema = route.replies?.[status]
  if (schema === undefined) throw new Error(`it answered ${status}, which the route does not declare`)
  reply.code(status).headers(headers ?? {})
  if (schema === null) return reply.send()
  const parsed = schema.safeParse(value)
  if (!parsed.success)
    throw new Error(`its answer does not fit the reply of ${status}`, { cause: parsed.error })
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(parsed.data))
}

/** Sends piece by piece; a slow reader slows the source, a reader that leaves ends it. */
async function sendStream(
  owned: OwnedRoute,
  reply: FastifyReply,
  { headers, body, cut }: StreamReply,
  report: (error: unknown) => void,
): Promise<void> {
  reply.hijack()
  const response = reply.raw
  response.writeHead(200, {
    'content-type': owned.route.stream ?? 'application/octet-stream',
    'cache-control': 'no-store',
    ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
  })
  response.flushHeaders()
  const source = Readable.from(body, { highWaterMark: 1 })
  await runAs(owned.owner, () => pipeline(source, response, { signal: cut })).catch(error => {
    // The head has been sent: cutting the connection is the one way left to say that the answer is not whole.
    response.destroy()
    const isKnown = error?.code === 'ERR_STREAM_PREMATURE_CLOSE' || cut?.aborted || owned.signal.aborted
    if (!isKnown) report(error)
  })
}

const FRAMEWORK: Record<string, string> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'the body must be application/json',
  FST_ERR_CTP_BODY_TOO_LARGE: 'the body is too large',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'the body is not as long as its content-length says',
  FST_ERR_BAD_URL: 'the path is not valid percent-encoding',
}

/** Sends an error as `{ error }`; what is no refusal goes to `report` and is `internal error` outside. */
export function refuse(
  reply: FastifyReply,
  error: unknown,
  report?: (error: unknown) => void,
): FastifyReply | undefined {
  const known = FRAMEWORK[(error as FastifyError)?.code]
  const status = isHttpError(error) ? error.status : known ? ((error as FastifyError).statusCode ?? 400) : 500
  if (status === 500 && !isHttpError(error)) report?.(error)
  if (reply.sent || reply.raw.headersSent) return undefined
  const message = isHttpError(error) ? error.message : (known ?? 'internal error')
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  return reply
    .code(status)
    .header('cache-control', 'no-store')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify({ error: message }))
}
