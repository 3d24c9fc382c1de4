// One immutable set of routes: a fastify app that never listens, and the count of what is open on it.
import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type Caller, HttpError, type Route } from 'svc-host/sdk'
import { ExtensionError } from './errors.ts'
import { answer, refuse } from './exchange.ts'
import type { OwnedRoute } from './http.ts'
import { Tally } from './tally.ts'

/** Where a route is served, its parameters in braces. */
export const urlOf = (route: Route): string => (route.absolute ? route.path : `/api/v1${route.path}`)

/** What a generation asks of the front. */
export interface Gate {
  /** Counts the exchange as its owner's until it has closed. */
  hold(owner: string, request: IncomingMessage, response?: ServerResponse): void
  /** Establishes the caller or throws the refusal. */
  authorize(request: IncomingMessage, route: Route, params: Record<string, string>): Promise<Caller>
  report(owner: string, during: string, error: unknown): void
}

/** A connection that a client wants to take over. */
export interface Takeover {
  readonly socket: Duplex
  readonly head: Buffer
}

/** A request without a connection. */
export interface Inside {
  readonly method: Route['method']
  readonly url: string
  /** Sent as JSON. */
  readonly body?: unknown
  readonly signal: AbortSignal
}

export class Generation {
  readonly open = new Tally()
  readonly #app: FastifyInstance
  readonly #takeovers = new WeakMap<IncomingMessage, Takeover>()

  /** Resolves to a generation that can answer; rejects with an `ExtensionError` where the framework refuses a route. */
  static async build(routes: readonly OwnedRoute[], gate: Gate): Promise<Generation> {
    const generation = new Generation(routes, gate)
    await generation.#app.ready()
    return generation
  }

  private constructor(routes: readonly OwnedRoute[], gate: Gate) {
    const app = fastify({
      logger: false,
      exposeHeadRoutes: false,
      bodyLimit: 2 * 1024 * 1024,
      routerOptions: { maxParamLength: 1024 },
      // Each app has a silent server of its own: timeouts and sockets are the front's.
      serverFactory: handler => createServer(handler),
      frameworkErrors: (error, _request, reply) => void refuse(reply as FastifyReply, error),
    })
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
      try {
        done(null, text === '' ? undefined : JSON.parse(text as string))
      } catch {
        done(new HttpError(400, 'the body is not JSON'))
      }
    })
    // A body of chunks may turn out to be none; one of another type is refused by its first bytes.
    app.addContentTypeParser('*', async ({ is404 }: FastifyRequest, payload: IncomingMessage) => {
      const first = new Promise(done => payload.once('data', done).once('end', done))
      if (!is404 && (await first)) throw new HttpError(415, 'the body must be application/json')
    })
    app.setErrorHandler((error, _request, reply) => refuse(reply, error))
    for (const owned of routes) {
      try {
        this.#mount(app, owned, gate)
      } catch (cause) {
        throw new ExtensionError(owned.owner, `${owned.route.method} ${owned.route.path}`, cause)
      }
    }
    const patterns = routes.map(({ route }) => {
      const parts = urlOf(route).split(/\{\w+\}/)
      return { method: route.method, pattern: new RegExp(`^${parts.map(RegExp.escape).join('[^/]+')}$`) }
    })
    app.setNotFoundHandler((request, reply) => {
      const path = request.url.split('?', 1)[0]!
      const methods = patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method)
      if (!methods.length) return refuse(reply, new HttpError(404, 'route not found'))
      const allow = [...new Set(methods)].join(', ')
      return refuse(reply.header('allow', allow), new HttpError(405, `this path answers ${allow} only`))
    })
    this.#app = app
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#app.routing(request, response)
  }

  /** Routes an upgrade like any request, so that lanes and schemas hold; other routes answer it as plain HTTP. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket as never)
    response.once('finish', () => socket.end())
    this.#takeovers.set(request, { socket, head })
    this.#app.routing(request, response)
  }

  /** One request that comes from inside; `signal` cuts it. */
  async inject({ body, ...request }: Inside): Promise<{ status: number; type: string; text: string }> {
    const json = { headers: { 'content-type': 'application/json' }, payload: JSON.stringify(body) }
    const { statusCode, headers, payload } = await this.#app.inject({
      ...request,
      ...(body !== undefined && json),
    })
    return { status: statusCode, type: String(headers['content-type'] ?? ''), text: payload }
  }

  /** Ends when the last response and the last upgraded connection have closed. */
  async retire(): Promise<void> {
    await this.open.drained()
    await this.#app.close()
  }

  #mount(app: FastifyInstance, owned: OwnedRoute, gate: Gate): void {
    const { owner, route } = owned
    const callers = new WeakMap<IncomingMessage, Caller>()
    const report = (cause: unknown): void => gate.report(owner, `${route.method} ${route.path}`, cause)
    app.route({
      method: route.method,
      url: urlOf(route).replace(/\{(\w+)\}/g, ':$1'),
      bodyLimit: route.bodyLimit,
      errorHandler: (error, _request, reply) => refuse(reply, error, report),
      onRequest: async (request, reply) => {
        gate.hold(owner, request.raw, this.#takeovers.has(request.raw) ? undefined : reply.raw)
        const params = request.params as Record<string, string>
        callers.set(request.raw, await gate.authorize(request.raw, route, params))
      },
      handler: (request, reply) =>
        answer(owned, request, reply, callers.get(request.raw)!, this.#takeovers.get(request.raw), report),
    })
  }
}
