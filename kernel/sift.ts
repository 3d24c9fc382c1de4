// Builds generations: an owner with a route that cannot be served is left out, so that one bad declaration costs nobody else.
import type { Route } from 'svc-host/sdk'
import { z } from 'zod'
import { ExtensionError, messageOf } from './errors.ts'
import { type Gate, Generation, urlOf } from './generation.ts'
import type { OwnedRoute } from './http.ts'

const METHODS = ['GET', 'PUT', 'POST', 'PATCH', 'DELETE']

const described = new WeakSet<Route>()

/** Throws where a schema cannot be told to others as JSON Schema; looks at each route once. */
function describeSchemas(route: Route): void {
  if (described.has(route)) return
  for (const schema of [route.params, route.query, route.body])
    if (schema) z.toJSONSchema(schema, { io: 'input' })
  for (const schema of Object.values(route.replies ?? {})) if (schema) z.toJSONSchema(schema)
  described.add(route)
}

/** What is wrong with a route on its own; JavaScript authors have no compiler to tell them. */
function fault(route: Route): string | undefined {
  const { lanes } = route
  if (!METHODS.includes(route.method))
    return `method ${String(route.method)} is none of ${METHODS.join(', ')}`
  if (typeof route.path !== 'string' || !/^(\/([^\s/{}:*?#]*|\{\w+\}))+$/.test(route.path))
    return 'the path must begin with / and write parameters as {name}'
  const classed = typeof lanes === 'object' && lanes !== null
  if (lanes !== 'open' && lanes !== 'loopback' && !(classed && 'plugin' in lanes && 'device' in lanes))
    return 'lanes are missing; write open, loopback, or { plugin, device }'
  if (!route.upgrade && typeof route.handler !== 'function') return 'there is no handler'
  if (!route.upgrade && !route.stream && !Object.keys(route.replies ?? {}).length)
    return 'replies are missing'
  try {
    describeSchemas(route)
  } catch (cause) {
    return `a schema cannot be described: ${messageOf(cause)}`
  }
  return undefined
}

/** Throws for the first route that is bad, or that another before it has already. */
function check(routes: readonly OwnedRoute[]): void {
  const holders = new Map<string, string>()
  for (const { owner, route } of routes) {
    const key = `${route.method} ${urlOf(route).replace(/\{\w+\}/g, '{}')}`
    const holder = holders.get(key)
    const why = holder ? `${holder} has this route already` : fault(route)
    if (why) throw new ExtensionError(owner, `${route.method} ${route.path}`, why)
    holders.set(key, owner)
  }
}

/** A generation of these routes without the owners that cannot be served, and why each of them cannot. */
export async function buildGeneration(
  routes: readonly OwnedRoute[],
  gate: Gate,
): Promise<{ generation: Generation; sound: readonly OwnedRoute[]; leftOut: ExtensionError[] }> {
  const leftOut: ExtensionError[] = []
  let sound = routes
  for (;;) {
    try {
      check(sound)
      return { generation: await Generation.build(sound, gate), sound, leftOut }
    } catch (error) {
      if (!(error instanceof ExtensionError)) throw error
      leftOut.push(error)
      sound = sound.filter(({ owner }) => owner !== error.extension)
    }
  }
}
