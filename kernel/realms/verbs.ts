// What an extension behind a bridge asks of its context: each verb checked in shape, then done by the kernel's own verb.
import { type Context, HttpError, type Scope } from 'svc-host/sdk'
import { z } from 'zod'
import type { Rights } from '../permissions.ts'
import type { Services } from '../services.ts'
import type { Cell, Serve } from './cell.ts'
import { createFlow } from './flow.ts'
import { outsideVerbs } from './outside.ts'
import { addRoute } from './routes.ts'
import { revive } from './schemas.ts'
import { callService, methodsOf, provideAcross } from './services.ts'
import { Described, id, json, methods, name, Point, RouteShape, text } from './shapes.ts'
import { type Clock, createTimers } from './timers.ts'
import { type Verb, verb } from './verb.ts'

const scopeLimit = 1024
const linesPerSecond = 200

/** Those that the host has opened count down from zero. */
const scopeId = z.int()

/** Fields that the log writes itself. */
const reserved = new Set(['level', 'time', 'extension', 'msg', 'err', '__proto__'])

/** What is named so belongs to the extension. */
function checkOwn(what: string, own: string, kind: string): void {
  if (!kind.startsWith(`${own}.`)) throw new Error(`${what} "${kind}" is not its own; name it "${own}.…"`)
}

export interface VerbsOptions {
  readonly ctx: Context
  readonly cell: Cell
  readonly services: Services
  readonly rights: Rights
  readonly clock?: Clock | undefined
  /** Adds to what is undone last. */
  onClose(stop: () => void): void
}

export function createServe({ ctx, cell, services, rights, clock, onClose }: VerbsOptions): Serve {
  const scopes = new Map<number, Scope & { close?(): Promise<void> }>([[0, ctx]])
  const kinds = new Map<string, z.ZodType>()
  const points = new Map<string, (input: unknown) => Promise<unknown>>()
  const timers = createTimers(cell, ctx.log, clock)
  let lastOwnScope = -1
  const mayLog = createFlow(linesPerSecond, count =>
    ctx.log.warn(`${count} more lines of it were not logged`),
  )
  let requests = 0

  onClose(() => timers.stopAll())
  const watch = (number: number, scope: Scope): void => {
    scope.signal.addEventListener('abort', () => cell.tell('abort', [`s${number}`]), { once: true })
  }
  watch(0, ctx)
  const newKey = (): string => {
    requests += 1
    return `r${requests}`
  }

  const scopeOf = (number: number): Scope => {
    const scope = scopes.get(number)
    if (!scope) throw new Error('the scope has been closed')
    return scope
  }
  const keepScope = (number: number, scope: Scope & { close?(): Promise<void> }): void => {
    if (scopes.has(number) || scopes.size >= scopeLimit)
      throw new Error(`over ${scopeLimit} scopes are open; close some`)
    scopes.set(number, scope)
    watch(number, scope)
  }
  const dropScope = (number: number): void => {
    scopes.delete(number)
    cell.tell('closed', [number])
  }

  const log = (level: 'debug' | 'info' | 'warn' | 'error', message: string, fields: object): void => {
    if (!mayLog()) return
    const kept = Object.entries(fields).filter(([key]) => !reserved.has(key))
    ctx.log[level](message.slice(0, 4096), Object.fromEntries(kept.slice(0, 32)))
  }

  const verbs = new Map<string, Verb>([
    ['log', verb([z.enum(['debug', 'info', 'warn', 'error']), z.string(), z.record(name, json)], log)],
    ['timer', verb([id, z.number(), z.boolean(), id], timers.start)],
    ['stopTimer', verb([id], timers.stop)],
    [
      'effect',
      verb([scopeId, text, id], (scope, label, start) =>
        scopeOf(scope).effect(label, async () => {
          const stop = z
            .int()
            .nullable()
            .parse(await cell.call(start, []))
          return stop === null ? undefined : async () => void (cell.isGone() || (await cell.call(stop, [])))
        }),
      ),
    ],
    [
      'scope',
      verb([scopeId, text, id], (outer, label, number) => keepScope(number, scopeOf(outer).scope(label))),
    ],
    [
      'close',
      verb([scopeId], async number => {
        const scope = scopes.get(number)
        await scope?.close?.()
        if (scope?.close) dropScope(number)
      }),
    ],
    [
      'provide',
      verb([scopeId, name, name, Described], (scope, ...rest) =>
        provideAcross(cell, scopeOf(scope), ...rest),
      ),
    ],
    [
      'using',
      verb([scopeId, name, id], (scope, service, target) => {
        rights.check(`services:${service}`)
        scopeOf(scope).using({ id: service, version: '' }, async (_service, sub) => {
          const methods = Object.keys(methodsOf(services, service))
          lastOwnScope -= 1
          const number = lastOwnScope
          keepScope(number, sub)
          await sub.effect('its scope', () => () => dropScope(number))
          await cell.call(target, [number, methods])
        })
      }),
    ],
    [
      'route',
      verb([scopeId, RouteShape, id], (scope, ...rest) =>
        addRoute(cell, scopeOf(scope), { prefix: `/ext/${ctx.id}`, rights }, ...rest, newKey),
      ),
    ],
    [
      'on',
      verb([scopeId, name, id], (scope, kind, target) => {
        rights.check(`events:${kind}`)
        scopeOf(scope).on({ kind, payload: z.looseObject({}) }, async event => {
          if (rights.has(`events:${kind}`)) await cell.call(target, [event])
        })
      }),
    ],
    [
      'tap',
      verb([scopeId, Point, z.number(), id], (scope, point, order, target) => {
        const needed = `hooks:${point.id}`
        rights.check(needed)
        const tap = async (input: unknown): Promise<unknown> =>
          rights.has(needed) ? cell.call(target, [input]) : undefined
        scopeOf(scope).tap(point, tap, { order })
      }),
    ],
    [
      'event',
      verb([name, json], (kind, schema) => {
        checkOwn('event', ctx.id, kind)
        if (kinds.size >= 256) throw new Error('over 256 kinds of events; use fewer')
        kinds.set(kind, revive(schema))
      }),
    ],
    [
      'emit',
      verb([name, z.record(z.string(), json)], (kind, payload) => {
        const schema = kinds.get(kind)
        if (!schema) throw new Error(`event "${kind}" was not declared`)
        ctx.emit({ kind, payload: schema as z.ZodType<object> }, payload)
      }),
    ],
    [
      'hookPoint',
      verb([Point], point => {
        checkOwn('hook point', ctx.id, point.id)
        points.set(point.id, ctx.hookPoint(point) as (input: unknown) => Promise<unknown>)
      }),
    ],
    [
      'callHook',
      verb([name, json], (point, input) => {
        const call = points.get(point)
        if (!call) throw new Error(`hook point "${point}" is not its own`)
        return call(input)
      }),
    ],
    [
      'service',
      verb([name, name, z.array(json).max(16)], async (service, method, args) => {
        rights.check(`services:${service}`)
        const result = await callService(services, service, method, args)
        // What it was granted may have been taken back meanwhile.
        rights.check(`services:${service}`)
        return result
      }),
    ],
    ['api', verb([z.enum(methods), z.string().max(4096), json], ctx.api)],
    ['storageGet', verb([name], key => ctx.storage.get(key))],
    ['storageSet', verb([name, json], (key, value) => ctx.storage.set(key, value))],
    ['storageDelete', verb([name], key => ctx.storage.delete(key))],
    ['storageKeys', verb([], () => ctx.storage.keys())],
    // It has more to say than fits at once: whatever is said to it lets it go on.
    ['more', verb([], () => cell.tell('more', []))],
    ...outsideVerbs(ctx, cell, rights.check),
  ])

  return (name, args) => {
    const run = verbs.get(name)
    if (!run) throw new HttpError(501, `there is no verb "${name.slice(0, 64)}" on this bridge`)
    return run(args, name)
  }
}
