// Every route that a host serves is a row of the wire's route table, with its id, its lanes and its success statuses.
// Reason: a route that is open to one caller too many is found by reading this table. Exception: none; a new route is
// a new row.
import type { Route } from 'svc-host/sdk'
import { ApiRoutes } from 'svc-host/sdk'
import type { TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { builtInIds, startBuiltIns } from './built-ins.ts'
import { asRow, rows, table } from './route-table.ts'

let host: TestHost
let routes: readonly { readonly owner: string; readonly route: Route }[]
beforeAll(async () => {
  host = await startBuiltIns()
  routes = host.service(ApiRoutes)!.list()
})
afterAll(() => host?.stop())

test('every built-in is on, so that no route escapes the look', () => {
  const missing = host.extensions.list().filter(({ state }) => state !== 'on')
  expect(missing.map(({ id, state, why }) => `${id} is ${state}: ${why}`)).toEqual([])
  expect(host.extensions.list()).toHaveLength(builtInIds.length)
})

test('the table has a row for each of the wire’s routes', () => {
  expect(rows.size).toBe(table.trim().split('\n').length)
  expect(rows.size).toBe(101)
})

test('every route served is a row of the table, as it stands there', () => {
  expect(routes.length).toBeGreaterThanOrEqual(15)
  for (const { owner, route } of routes) {
    const name = `${route.method} ${route.path}`
    expect(asRow(route), `${name} of ${owner}`).toEqual(rows.get(name))
  }
})

// Reason: whatever the lanes say, a caller without any credential from this machine gets nowhere else.
test('without a credential only the open and loopback routes answer', async () => {
  for (const { route } of routes) {
    const path = route.path.replace(/\{\w+\}/g, 'x')
    const headers = route.method === 'GET' || route.method === 'DELETE' ? {} : { body: {} }
    const { status } = await host.inject(route.method, path, { token: null, ...headers })
    expect(status === 401, `${route.method} ${route.path} answered ${status}`).toBe(
      typeof route.lanes !== 'string',
    )
  }
})
