// Services across a bridge, both ways: plain data, checked by what the provider's token describes.
import type { Scope, Token } from 'svc-host/sdk'
import type { Services } from '../services.ts'
import type { Cell } from './cell.ts'
import { revive } from './schemas.ts'
import type { Described } from './shapes.ts'

/** What a service's token describes; throws where it describes nothing, with what to do. */
export function methodsOf(services: Services, id: string): NonNullable<Token<unknown>['methods']> {
  const offer = services.find(id)
  if (offer?.methods) return offer.methods
  const remedy = `describe them in its token('${id}', …), or set "realm": "kernel" here`
  throw new Error(
    `service ${id} of ${offer?.owner ?? 'nobody'} describes no methods, so that no other realm can use it; ${remedy}`,
  )
}

/** Calls a service of the host on behalf of whoever is behind the bridge. */
export async function callService(
  services: Services,
  service: string,
  method: string,
  given: readonly unknown[],
): Promise<unknown> {
  const offer = services.find(service)
  const how = offer && Object.hasOwn(offer.methods ?? {}, method) ? offer.methods![method] : undefined
  if (!offer || !how) throw new Error(`service ${service} has no method ${method} now`)
  const args = how.args.map((schema, at) => {
    const { success, data, error } = schema.safeParse(given[at])
    if (success) return data
    throw new Error(`service ${service}, ${method}: argument ${at + 1}: ${error.issues[0]!.message}`)
  })
  const result = await (offer.service as Record<string, (...a: unknown[]) => unknown>)[method]!(...args)
  return how.returns?.parse(result)
}

/** Provides a service whose every method is a call over the bridge. */
export function provideAcross(
  cell: Cell,
  scope: Scope,
  service: string,
  version: string,
  described: Described,
): void {
  const methods = Object.fromEntries(
    Object.entries(described).map(([method, { args, returns }]) => [
      method,
      {
        args: args.map(revive),
        returns: returns === null || returns === undefined ? undefined : revive(returns),
      },
    ]),
  )
  const proxy = Object.fromEntries(
    Object.entries(described).map(([method, { call }]) => [
      method,
      async (...given: unknown[]) => {
        const { args, returns } = methods[method]!
        const result = await cell.call(
          call,
          args.map((schema, at) => schema.parse(given[at])),
        )
        return returns?.parse(result)
      },
    ]),
  )
  scope.provide({ id: service, version, methods }, proxy)
}
