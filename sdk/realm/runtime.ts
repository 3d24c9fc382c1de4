// The context of an extension in an isolate or a process of its own: the same verbs, each sent over the bridge as plain data.
import type { z } from 'zod'
import { HttpError } from '../errors.ts'
import type { EventKind } from '../event.ts'
import type { Context, Extension, Log, Scope } from '../extension.ts'
import type { HookPoint } from '../hook.ts'
import type { Reply, Request, Route } from '../route.ts'
import type { Token } from '../service.ts'
import { describeSchema } from './describe.ts'
import { type Clock, dateAt, describe, installGlobals } from './globals.ts'
import { outside } from './outside.ts'
import { allows, type Decided, refuse as lacks } from './rights.ts'
import { answerTo, ask, forget, handle, tell } from './wire.ts'

export { drain, receive } from './wire.ts'

const say =
  (level: keyof Log) =>
  (message: string, fields?: object): void =>
    tell('log', level, String(message), fields === undefined ? {} : plainFields(fields))

const plainFields = (fields: object): object =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => {
      const isPlain = value === null || ['string', 'number', 'boolean'].includes(typeof value)
      return [key, isPlain ? value : describe(value)]
    }),
  )

const log: Log = { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') }

const timers = new Map<number, number>()
let lastTimer = 0
const clock: Clock = {
  start(ms, repeat, run) {
    lastTimer += 1
    const id = lastTimer
    const number = handle(() => {
      if (!repeat) stopTimer(id)
      return run()
    })
    timers.set(id, number)
    tell('timer', id, ms, repeat, number)
    return id
  },
  stop: id => stopTimer(id) && tell('stopTimer', id),
}
const hasNode = 'process' in globalThis
if (!hasNode) installGlobals(clock, (level, message) => log[level](message))

function stopTimer(id: number): boolean {
  forget(timers.get(id) ?? 0)
  return timers.delete(id)
}

/** Only where a test moves the time. */
let nowMs = 0
answerTo('time', (now: number) => {
  if (nowMs === 0) globalThis.Date = dateAt(Date, () => nowMs)
  nowMs = now
})

const controllers = new Map<string, AbortController>()
const controlled = (key: string): AbortSignal => {
  const controller = new AbortController()
  controllers.set(key, controller)
  return controller.signal
}
answerTo('abort', (key: string) => {
  controllers.get(key)?.abort()
  controllers.delete(key)
})
/** What was registered on a scope has gone, and so have its functions. */
const held = new Map<number, number[]>()
answerTo('closed', (scope: number) => {
  controllers.get(`s${scope}`)?.abort()
  controllers.delete(`s${scope}`)
  for (const number of held.get(scope) ?? []) forget(number)
  held.delete(scope)
})

const cannot = (verb: string, instead: string) => (): never => {
  throw new Error(`ctx.${verb} is not there in the ${hasNode ? 'process' : 'isolate'} realm; ${instead}`)
}
const orProcess = hasNode ? 'use Node’s own' : 'leave it out, or set "realm": "process" in extension.json'

/** The service behind a token: its methods, each a call over the bridge. */
const serviceOf = (id: string, methods: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(methods.map(name => [name, (...args: unknown[]) => ask('service', id, name, args)]))

interface About {
  readonly id: string
  readonly version: string
  readonly decided: Decided
}
let me: About

/** The host checks each call as well; here it is the author's own line that throws. */
const need = (permission: string): void => {
  if (!allows(me.decided, permission)) lacks(me.id, me.decided, permission)
}

let lastScope = 0

function createScope(id: number): Scope {
  const signal = controlled(`s${id}`)
  const kept: number[] = []
  held.set(id, kept)
  const keep = (fn: (...args: never[]) => unknown): number => {
    const number = handle(fn)
    kept.push(number)
    return number
  }
  const refuse = (label: string): void => {
    if (signal.aborted) throw new Error(`the extension is stopping; "${label}" was not registered`)
  }
  return {
    signal,
    effect: (label, start) =>
      ask(
        'effect',
        id,
        label,
        keep(async () => {
          const stop = await start()
          return stop ? keep(stop) : null
        }),
      ),
    scope(label) {
      refuse(label)
      lastScope += 1
      const inner = lastScope
      tell('scope', id, label, inner)
      return { ...createScope(inner), close: () => ask('close', inner) }
    },
    provide(token, service) {
      refuse(`provide ${token.id}`)
      tell(
        'provide',
        id,
        token.id,
        token.version,
        describeMethods(token, service as Record<string, unknown>, keep),
      )
    },
    using(token, start) {
      refuse(`using ${token.id}`)
      need(`services:${token.id}`)
      const open = (inner: number, methods: string[]): unknown =>
        start(serviceOf(token.id, methods) as never, createScope(inner))
      tell('using', id, token.id, keep(open))
    },
    route: (...routes) => {
      for (const route of routes) {
        refuse(`route ${route.method} ${route.path}`)
        need('routes')
        tell('route', id, describeRoute(route), keep(handlerOf(route)))
      }
    },
    on(kind, listener) {
      refuse(`on ${kind.kind}`)
      need(`events:${kind.kind}`)
      tell('on', id, kind.kind, keep(listener))
    },
    tap(point, fn, { order = 0 } = {}) {
      refuse(`tap ${point.id}`)
      need(`hooks:${point.id}`)
      tell('tap', id, describePoint(point), order, keep(fn as (...args: never[]) => unknown))
    },
    durable: async () => cannot('durable', orProcess)(),
    process: async () => cannot('process', orProcess)(),
    folder: async () => cannot('folder', orProcess)(),
  }
}

const describePoint = <I, O>({ id, kind, onFailure, limitMs }: HookPoint<I, O>): object => ({
  id,
  kind,
  onFailure,
  limitMs,
})

function describeMethods(
  token: Token<unknown>,
  service: Record<string, unknown>,
  keep: (fn: (...args: never[]) => unknown) => number,
): object {
  const described = token.methods ?? {}
  const missing = Object.keys(service).filter(name => typeof service[name] === 'function' && !described[name])
  if (missing.length || !token.methods) {
    const wanted = missing.map(name => `${name}: { args: […], returns: … }`).join(', ')
    throw new Error(
      `service ${token.id} cannot leave its realm: write token('${token.id}', '${token.version}', { ${wanted} })`,
    )
  }
  return Object.fromEntries(
    Object.entries(described).map(([name, { args, returns }]) => {
      const fn = service[name]
      if (typeof fn !== 'function')
        throw new Error(`service ${token.id}: it has no method ${name}, which its token describes`)
      const what = `service ${token.id}, ${name}`
      const call = (...given: unknown[]): unknown =>
        fn.apply(
          service,
          args.map((schema, at) => schema.parse(given[at])),
        )
      return [
        name,
        {
          args: args.map((schema, at) => describeSchema(schema, 'input', `${what}, args[${at}]`)),
          returns: returns ? describeSchema(returns, 'output', `${what}, returns`) : null,
          call: keep(call as (...args: never[]) => unknown),
        },
      ]
    }),
  )
}

function describeRoute(route: Route): object {
  const what = `route ${route.method} ${route.path}`
  if (route.stream !== undefined || route.upgrade || route.absolute)
    throw new Error(
      `${what}: stream, upgrade and absolute cannot leave its realm; answer with "replies" under /api/v1`,
    )
  const input = (name: 'params' | 'query' | 'body'): object | undefined =>
    route[name] && describeSchema(route[name], 'input', `${what}, ${name}`)
  const { method, path, id, tag, summary, description, hidden, lanes } = route
  const { emptyBody, invalidBody, bodyLimit, errors } = route
  return {
    ...{
      method,
      path,
      id,
      tag,
      summary,
      description,
      hidden,
      lanes,
      emptyBody,
      invalidBody,
      bodyLimit,
      errors,
    },
    params: input('params'),
    query: input('query'),
    body: input('body'),
    replies: Object.fromEntries(
      Object.entries(route.replies ?? {}).map(([status, schema]) => [
        status,
        schema && describeSchema(schema, 'output', `${what}, reply ${status}`),
      ]),
    ),
  }
}

const parse = (schema: z.ZodType | undefined, value: unknown, status: number): unknown => {
  if (!schema) return undefined
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  const { path, message } = error.issues[0]!
  throw new HttpError(status, path.length ? `${path.join('.')}: ${message}` : message)
}

/** The host has looked at the request already; here it gets what JSON Schema cannot say: transforms, refinements. */
const handlerOf =
  (route: Route) =>
  async (
    key: string,
    { params, query, body, headers, caller }: Request<unknown, unknown, unknown>,
  ): Promise<unknown> => {
    const signal = controlled(key)
    try {
      const request = {
        params: parse(route.params, params, 400),
        query: parse(route.query, query, 400),
        body: parse(route.body, body, route.invalidBody ?? 422),
        headers,
        caller,
        signal,
      }
      const result = await route.handler!(request)
      const {
        status,
        value,
        headers: own,
      } = isReply(result)
        ? result
        : { status: Number(Object.keys(route.replies ?? {})[0]), value: result, headers: undefined }
      const schema = route.replies?.[status]
      const parsed = schema?.safeParse(value)
      if (parsed && !parsed.success)
        throw new Error(`its answer does not fit the reply of ${status}: ${parsed.error.message}`)
      return { status, value: parsed?.data, headers: own }
    } finally {
      controllers.delete(key)
    }
  }

const isReply = (value: unknown): value is Reply =>
  typeof value === 'object' && value !== null && (value as Partial<Reply>).reply === true

const announced = new Set<string>()

function createContext(config: unknown): Context {
  return {
    ...createScope(0),
    id: me.id,
    version: me.version,
    config,
    log,
    emit<P extends object>({ kind, payload: schema }: EventKind<P>, payload: P) {
      const data = schema.parse(payload)
      if (!announced.has(kind)) tell('event', kind, describeSchema(schema, 'output', `event ${kind}`))
      announced.add(kind)
      tell('emit', kind, data)
    },
    hookPoint(point) {
      tell('hookPoint', describePoint(point))
      return input => ask('callHook', point.id, input)
    },
    document: async () => cannot('document', 'use ctx.storage for what must last')(),
    storage: {
      get: key => ask('storageGet', key),
      set: (key, value) => ask('storageSet', key, value),
      delete: key => ask('storageDelete', key),
      keys: () => ask('storageKeys'),
    },
    api: (method, path, body) => ask('api', method, path, body),
    ...outside,
  }
}

const freeze = (value: unknown): unknown => {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freeze)
  return value
}

/** Takes the extension in; tells the host what the kernel must know before the setup, and how to begin it. */
export function boot(extension: Extension | undefined): void {
  const deps = Object.entries<Token<unknown>>(extension?.deps ?? {})
  const setup = async (about: About, config: unknown, methods: Record<string, string[]>): Promise<void> => {
    me = about
    const parsed = freeze(extension!.config ? extension!.config.parse(config) : config)
    const services = Object.fromEntries(
      deps.map(([name, { id }]) => [name, serviceOf(id, methods[name] ?? [])]),
    )
    await extension!.setup(createContext(parsed as never), services as never)
  }
  const check = (values: unknown): object[] => {
    const { error } = extension!.config!.safeParse(values)
    return (error?.issues ?? []).slice(0, 100).map(({ path, message }) => ({
      path: path.map(part => (typeof part === 'number' ? part : String(part))),
      message: message.slice(0, 1000),
    }))
  }
  tell('define', {
    config: extension?.config ? describeSchema(extension.config, 'input', 'config') : null,
    check: extension?.config ? handle(check) : null,
    deps: Object.fromEntries(deps.map(([name, { id, version }]) => [name, { id, version }])),
    setup: typeof extension?.setup === 'function' ? handle(setup) : null,
  })
}
