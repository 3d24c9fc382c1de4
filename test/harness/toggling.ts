// Switching extensions off and on, and what that must leave as it was: routes, effects, handles, listeners, descriptors,
// child processes and memory.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { ApiRoutes } from 'svc-host/sdk'
import type { TestHost } from 'svc-host/testing'

const tally = (names: readonly string[]): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(names, name => name)].map(([name, all]) => [name, all.length] as const).sort(),
  )

export const routesOf = (host: TestHost, owner?: string): string[] =>
  host
    .service(ApiRoutes)!
    .list()
    .filter(each => owner === undefined || each.owner === owner)
    .map(each => `${each.owner} ${each.route.method} ${each.route.path}`)
    .sort()

/** What extensions hold and show. */
export const surfaceOf = (host: TestHost) => ({
  routes: routesOf(host),
  effects: host.extensions
    .list()
    .map(({ id, state, why, effects }) => `${id} ${state}: ${why ?? [...effects].sort().join(', ')}`),
})

/** A file of /proc; empty once the process has ended. */
const about = (pid: string | number, name: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8').trim()
  } catch {
    return ''
  }
}
const childrenOf = (pid: string | number): string[] =>
  about(pid, `task/${pid}/children`).split(' ').filter(Boolean)

/** Processes begun by this one, by their names. */
const children = (): string[] => childrenOf(process.pid).flatMap(pid => about(pid, 'comm') || [])

/** Memory of all processes begun by this one or by those, in bytes, what they share counted once for each. */
export const childrenBytes = (pid: string | number = process.pid): number =>
  childrenOf(pid).reduce((sum, child) => {
    const [kib = '0'] = /(?<=^VmRSS:\s+)\d+/m.exec(about(child, 'status')) ?? []
    return sum + Number(kib) * 1024 + childrenBytes(child)
  }, 0)

/** All that the process holds: handles and requests by kind, listeners on the process itself, descriptors, children. */
export const holdings = () => ({
  resources: tally(process.getActiveResourcesInfo()),
  listeners: Object.fromEntries(
    process
      .eventNames()
      // Whoever runs this may listen for that.
      .filter(name => name !== 'SIGINT')
      .map(name => [String(name), process.listenerCount(name)]),
  ),
  descriptors: readdirSync('/proc/self/fd').length,
  children: tally(children()),
})
export type Holdings = ReturnType<typeof holdings>

/** What the process holds at rest. The runner's own timers come and go, so that the least over a while is the truth. */
export async function atRest(): Promise<Holdings> {
  const seen = [holdings()]
  for (let i = 0; i < 30; i++) {
    await sleep(20)
    seen.push(holdings())
  }
  const size = ({ resources, descriptors }: Holdings) =>
    Object.values(resources).reduce((a, b) => a + b, 0) + descriptors
  return seen.sort((a, b) => size(a) - size(b))[0]!
}

/** Sockets close and timers run out in their own time, but not later than this; resolves to what is there then. */
export async function holdingsSettle(expected: Holdings, withinMs = 10_000): Promise<Holdings> {
  const end = performance.now() + withinMs
  while (!isDeepStrictEqual(holdings(), expected) && performance.now() < end) await sleep(20)
  return holdings()
}

let collect: (() => void) | undefined

/** Bytes of JavaScript alive once all that can be has been collected. */
export async function heapBytes(): Promise<number> {
  if (!collect) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
  }
  // What a finalizer lets go is collected in a later round.
  for (let i = 0; i < 3; i++) {
    collect()
    await sleep(0)
  }
  return process.memoryUsage().heapUsed
}

/** Switches all of these off at once, then on at once: one round of each. */
export async function toggleAll(host: TestHost, ids: readonly string[]): Promise<void> {
  for (const enabled of [false, true]) await Promise.all(ids.map(id => host.extensions.enable(id, enabled)))
}
