// Sorts out owners whose routes cannot be served, so that one bad declaration costs nobody else.
import type { Route } from 'svc-host/sdk'
import { messageOf } from './errors.ts'
import { type Gate, Generation } from './generation.ts'
import type { LeftOut, OwnedRoute } from './http.ts'
import { schemasOf, urlOf } from './openapi.ts'

const METHODS = ['GET', 'PUT', 'POST', 'PATCH', 'DELETE']

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
    schemasOf(route)
  } catch (cause) {
    return `a schema cannot be described: ${messageOf(cause)}`
  }
  return undefined
}

/** Sorts out owners with a route that cannot be built or that a sound owner before them has. */
function sift(routes: readonly OwnedRoute[]): { sound: OwnedRoute[]; leftOut: LeftOut[] } {
  const holders = new Map<string, string>()
  const sound: OwnedRoute[] = []
  const leftOut: LeftOut[] = []
  for (const [owner, own] of Map.groupBy(routes, each => each.owner)) {
    const keys = new Set<string>()
    let error: Error | undefined
    for (const { route } of own) {
      const key = `${route.method} ${urlOf(route).replace(/\{\w+\}/g, '{}')}`
      const holder = keys.has(key) ? owner : holders.get(key)
      const why = holder ? `${holder} has this route already` : fault(route)
      if (why) error ??= new Error(`[${owner}] ${route.method} ${route.path}: ${why}`)
      keys.add(key)
    }
    if (error) leftOut.push({ owner, error })
    else sound.push(...own)
    if (!error) for (const key of keys) holders.set(key, owner)
  }
  return { sound, leftOut }
}

/** A generation of these routes without the owners that cannot be served. */
export async function buildGeneration(
  routes: readonly OwnedRoute[],
  gate: Gate,
): Promise<{ generation: Generation; sound: readonly OwnedRoute[]; leftOut: LeftOut[] }> {
  const { sound, leftOut } = sift(routes)
  try {
    return { generation: await Generation.build(sound, gate), sound, leftOut }
  } catch {
    // The framework objects to something that was not foreseen: a trial of each owner alone finds whose it is.
    const accepted: OwnedRoute[] = []
    for (const [owner, own] of Map.groupBy(sound, each => each.owner)) {
      try {
        await (await Generation.build(own, gate)).retire()
        accepted.push(...own)
      } catch (cause) {
        leftOut.push({
          owner,
          error: new Error(`[${owner}] its routes cannot be served: ${messageOf(cause)}`, { cause }),
        })
      }
    }
    return { generation: await Generation.build(accepted, gate), sound: accepted, leftOut }
  }
}
