// What a caller gets: validation before the handler, declared replies and errors after it, `{ error }` always.
import { hostname } from 'node:os'
import { HttpError, type Route, reply, route } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { bearer, ok, owned, startFront } from './front-under-test.ts'

const admin = { plugin: false, device: false } as const
const thing = route({
  method: 'POST',
  path: '/things/{id}',
  id: 'postThing',
  summary: 'Stores a thing',
  lanes: admin,
  params: z.object({ id: z.coerce.number().int() }),
  query: z.object({ limit: z.coerce.number().default(5) }),
  body: z.object({ name: z.string(), at: z.array(z.object({ n: z.number() })).default([]) }),
  bodyLimit: 2000,
  replies: { 200: z.object({ id: z.number(), limit: z.number(), name: z.string() }) },
  handler: ({ params, query, body }) => ({ ...params, ...query, ...body, secret: 'not in the schema' }),
})

test('an answer is parsed with its schema and never cached', async () => {
  const { call } = await startFront([owned(thing)])
  const answer = await call('POST', '/api/v1/things/7?limit=9', { headers: bearer(), body: { name: 'x' } })
  expect(answer.json).toEqual({ id: 7, limit: 9, name: 'x' })
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
})

test('what does not fit is refused with the place, in the order path, query, body', async () => {
  const { call, faults } = await startFront([owned(thing)])
  const post = (path: string, o: object) => call('POST', `/api/v1${path}`, { headers: bearer(), ...o })
  const json = { 'content-type': 'application/json' }
  const chunked = { 'transfer-encoding': 'chunked' }
  const cases: [number, RegExp, Promise<{ status: number; json: unknown }>][] = [
    [400, /^id: /, post('/things/x?limit=y', { body: {} })],
    [400, /^limit: /, post('/things/1?limit=y', { body: {} })],
    [422, /^name: /, post('/things/1', { body: {} })],
    [422, /^at\[1\]\.n: /, post('/things/1', { body: { name: '', at: [{ n: 1 }, { n: 'x' }] } })],
    [400, /not JSON/, post('/things/1', { raw: '{"a"', headers: { ...bearer(), ...json } })],
    [400, /required/, post('/things/1', {})],
    [400, /required/, post('/things/1', { raw: '', headers: { ...bearer(), ...json } })],
    [
      415,
      /application\/json/,
      post('/things/1', { raw: 'a=b', headers: { ...bearer(), 'content-type': 'text/plain' } }),
    ],
    [415, /application\/json/, post('/things/1', { raw: '{}' })],
    [415, /application\/json/, post('/things/1', { raw: '{}', headers: { ...bearer(), ...chunked } })],
    [413, /too large/, post('/things/1', { body: { name: 'x'.repeat(3000) } })],
    [400, /percent/, post('/things/%zz', { body: {} })],
  ]
  for (const [status, text, answer] of cases) {
    const { json, status: got } = await answer
    expect([got, json]).toEqual([status, { error: expect.stringMatching(text) }])
  }
  expect(faults).toEqual([])
})

test('invalidBody and emptyBody do what they say', async () => {
  const shape = {
    method: 'PUT',
    lanes: 'open',
    summary: '',
    replies: { 204: null },
    handler: () => undefined,
  } as const
  const { call } = await startFront([
    owned(route({ ...shape, path: '/strict', body: z.object({ a: z.number() }), invalidBody: 400 })),
    owned(route({ ...shape, path: '/empty', body: z.object({ a: z.number().default(1) }), emptyBody: true })),
    owned(route({ ...shape, path: '/none' })),
  ])
  expect((await call('PUT', '/api/v1/strict', { body: { a: 'x' } })).status).toBe(400)
  expect((await call('PUT', '/api/v1/empty')).status).toBe(204)
  // Some libraries send chunks before they know that there are none.
  const headers = { 'transfer-encoding': 'chunked' }
  expect((await call('PUT', '/api/v1/empty', { headers })).status).toBe(204)
  expect((await call('PUT', '/api/v1/none', { headers })).status).toBe(204)
  expect((await call('PUT', '/api/v1/strict', { headers })).status).toBe(400)
  expect((await call('PUT', '/api/v1/none')).status).toBe(204)
})

test('unknown paths and methods say so with the error body', async () => {
  const { call } = await startFront([owned(thing), owned(ok('/things/all'))])
  const missing = await call('GET', '/api/v1/nothing')
  expect([missing.status, missing.json]).toEqual([404, { error: 'route not found' }])
  const wrong = await call('DELETE', '/api/v1/things/all')
  expect([wrong.status, wrong.headers.allow]).toEqual([405, 'POST, GET'])
  expect((await call('HEAD', '/api/v1/things/all')).status).toBe(405)
  expect((await call('PATCH', '/api/v1/things/1')).headers.allow).toBe('POST')
})

test("a declared refusal goes out as it is; anything else is `internal error` and is laid at the owner's door", async () => {
  const failing = (path: string, handler: () => unknown, extra: Partial<Route> = {}): Route =>
    ({ ...ok(path, handler), errors: { 409: 'taken' }, ...extra }) as Route
  const { call, faults } = await startFront([
    owned(
      failing('/taken', () => {
        throw new HttpError(409, 'it is taken')
      }),
    ),
    owned(
      failing('/bug', () => {
        throw new Error('the password is 123')
      }),
      'buggy',
    ),
    owned(
      failing('/undeclared', () => {
        throw new HttpError(418, 'teapot')
      }),
    ),
    owned(failing('/misfit', () => ({ ok: 'yes' }))),
    owned(failing('/wrong-status', () => reply(202, { ok: true }))),
    owned(failing('/rejected', () => Promise.reject('a string'))),
  ])
  const get = async (path: string) => {
    const { status, json } = await call('GET', `/api/v1${path}`)
    return [status, json]
  }
  expect(await get('/taken')).toEqual([409, { error: 'it is taken' }])
  expect(faults).toEqual([])
  for (const path of ['/bug', '/undeclared', '/misfit', '/wrong-status', '/rejected'])
    expect(await get(path)).toEqual([500, { error: 'internal error' }])
  expect(faults.map(({ owner, during }) => `${owner} ${during}`)).toEqual([
    'buggy GET /bug',
    'one GET /undeclared',
    'one GET /misfit',
    'one GET /wrong-status',
    'one GET /rejected',
  ])
})

test('reply sets status and headers, a stream route answers text, absolute paths have no prefix', async () => {
  const made = {
    ...ok('/made', () => reply(201, { ok: true }, { location: '/x' })),
    replies: { 201: z.object({ ok: z.boolean() }), 204: null },
  }
  const page = route({
    method: 'GET',
    path: '/page',
    absolute: true,
    summary: '',
    lanes: 'open',
    stream: 'text/html',
    handler: () => '<p>',
  })
  const { call } = await startFront([owned(made), owned(page)])
  const created = await call('GET', '/api/v1/made')
  expect([created.status, created.headers.location, created.json]).toEqual([201, '/x', { ok: true }])
  const html = await call('GET', '/page')
  expect([html.status, html.headers['content-type'], html.text]).toEqual([200, 'text/html', '<p>'])
})

test("a name that is not this machine's and an origin that is not the host's own are refused", async () => {
  const { call } = await startFront([owned(ok())], { origins: ['https://console.example'] })
  const get = async (headers: Record<string, string>) => (await call('GET', '/api/v1/ok', { headers })).status
  const own = hostname()
  expect(await get({ host: 'evil.example' })).toBe(421)
  expect(await get({ host: '127.0.0.1.evil.example:47990' })).toBe(421)
  for (const host of [
    '127.0.0.1',
    '[::1]:47990',
    'localhost:1',
    `${own}.local`,
    `${own.toUpperCase()}:47990`,
  ])
    expect(await get({ host })).toBe(200)
  expect(await get({ host: 'localhost:1', origin: 'https://localhost:1' })).toBe(200)
  expect(await get({ origin: 'https://console.example' })).toBe(200)
  // Its browser asks first, and must be told that the page may have the answer.
  const ask = { origin: 'https://console.example', 'access-control-request-method': 'PUT' }
  const told = await call('OPTIONS', '/things', { headers: ask })
  expect([told.status, told.headers['access-control-allow-origin']]).toEqual([204, ask.origin])
  expect(told.headers['access-control-allow-headers']).toContain('authorization')
  const evil = await call('OPTIONS', '/things', { headers: { ...ask, origin: 'https://evil.example' } })
  expect(evil.headers).not.toHaveProperty('access-control-allow-origin')
  for (const origin of ['https://evil.example', 'null', 'http://localhost'])
    expect(await get({ host: 'localhost', origin })).toBe(403)
})
