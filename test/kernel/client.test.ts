// The API client against a real listener: the pin before the token, typed errors, event streams.
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { ApiError, openApi, parseEventStream } from 'svc-host/client'
import { HttpError, route, streamReply } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { loadIdentity } from '../../kernel/identity.ts'
import {
  adminToken,
  later,
  ok,
  owned,
  startFront,
  temporaryFolder,
  testIdentity,
} from './front-under-test.ts'

const admin = { plugin: false, device: false } as const
const echo = route({
  method: 'POST',
  path: '/echo',
  summary: '',
  lanes: admin,
  body: z.object({ text: z.string() }),
  replies: { 200: z.object({ text: z.string() }) },
  errors: { 409: 'taken' },
  handler: ({ body }) => {
    if (body.text === 'taken') throw new HttpError(409, 'it is taken')
    return body
  },
})
const nothing = route({
  method: 'DELETE',
  path: '/echo',
  summary: '',
  lanes: admin,
  replies: { 204: null },
  handler: () => undefined,
})

async function client(port: number, token = adminToken) {
  const api = openApi({
    url: `https://127.0.0.1:${port}`,
    token,
    certificatePem: (await testIdentity()).certificatePem,
  })
  later(() => api.close())
  return api
}
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'resolved',
    error => [error instanceof ApiError, error.code, error.status, error.message],
  )

test('requests carry the token; answers and refusals are typed', async () => {
  const { front } = await startFront([owned(echo), owned(nothing)])
  const api = await client(front.port)
  expect(await api.request('POST', '/echo', { text: 'hé' })).toEqual({ text: 'hé' })
  expect(await api.request('DELETE', '/echo')).toBeUndefined()
  expect(await failure(api.request('POST', '/echo', { text: 'taken' }))).toEqual([
    true,
    'refused',
    409,
    'it is taken',
  ])
  expect(await failure((await client(front.port, 'b'.repeat(64))).request('DELETE', '/echo'))).toEqual([
    true,
    'unauthorized',
    401,
    'missing or wrong credential',
  ])
})

test('a fingerprint pins as well as a certificate', async () => {
  const { front } = await startFront([owned(ok())])
  const fingerprint = (await testIdentity()).fingerprint.toUpperCase()
  const api = openApi({ url: `https://localhost:${front.port}`, fingerprint })
  later(() => api.close())
  expect(await api.request('GET', '/ok')).toEqual({ ok: true })
})

test('whoever squats on the port gets neither token nor request', async () => {
  const other = await loadIdentity(temporaryFolder(), () => {})
  const seen: Buffer[] = []
  const squatter = createServer({ cert: other.certificatePem, key: other.privateKeyPem }, (_, response) =>
    response.end('{}'),
  )
  squatter.on('secureConnection', socket => socket.on('data', chunk => seen.push(chunk)))
  await new Promise<void>(done => squatter.listen(0, '127.0.0.1', done))
  later(() => void squatter.close())
  const api = await client((squatter.address() as AddressInfo).port)
  expect(await failure(api.request('POST', '/echo', { text: 'x' }))).toEqual([
    true,
    'pin-mismatch',
    undefined,
    expect.stringContaining('shows another certificate than the pinned one'),
  ])
  await new Promise(done => setTimeout(done, 50))
  expect(seen).toEqual([])
})

test('nobody there, and somebody who leaves, are `unreachable`', async () => {
  const gone = createServer()
  await new Promise<void>(done => gone.listen(0, '127.0.0.1', done))
  const { port } = gone.address() as AddressInfo
  await new Promise(done => gone.close(done))
  expect(await failure((await client(port)).request('GET', '/ok'))).toMatchObject([
    true,
    'unreachable',
    undefined,
    expect.stringContaining('ECONNREFUSED'),
  ])

  const { front } = await startFront([owned(ok('/never', () => new Promise(() => {})))])
  const waiting = failure((await client(front.port)).request('GET', '/never'))
  await new Promise(done => setTimeout(done, 100))
  await front.drain('one', 0)
  expect(await waiting).toMatchObject([
    true,
    'unreachable',
    undefined,
    expect.stringMatching(/^no answer from https/),
  ])
})

test('an abort rejects with its own reason', async () => {
  const { front } = await startFront([owned(ok('/never', () => new Promise(() => {})))])
  const reason = new Error('enough')
  const aborting = new AbortController()
  const waiting = (await client(front.port)).request('GET', '/never', undefined, { signal: aborting.signal })
  setTimeout(() => aborting.abort(reason), 50)
  await expect(waiting).rejects.toBe(reason)
})

test('events are followed until the end; query, cursor and refusals arrive', async () => {
  const events = route({
    method: 'GET',
    path: '/events',
    summary: '',
    lanes: admin,
    query: z.object({ kinds: z.string().default('*'), since: z.string().optional() }),
    stream: 'text/event-stream',
    errors: { 503: 'too many' },
    handler: ({ query, headers }) => {
      if (query.kinds === 'busy') throw new HttpError(503, 'too many event streams')
      const cursor = JSON.stringify({ ...query, cursor: headers['last-event-id'] })
      return streamReply(
        {},
        (async function* () {
          yield `: hello\n\nid: 7\nevent: told\nda`
          yield `ta: ${cursor}\n\nevent: live\ndata: {"live":true}\n\n`
        })(),
      )
    },
  })
  const { front } = await startFront([owned(events)])
  const api = await client(front.port)
  const seen = await Array.fromAsync(api.events({ kinds: 'a.*', since: 3, lastEventId: '5' }))
  expect(seen).toEqual([
    { event: 'told', id: '7', data: { kinds: 'a.*', since: '3', cursor: '5' } },
    { event: 'live', id: '7', data: { live: true } },
  ])
  expect(await failure(Array.fromAsync(api.events({ kinds: 'busy' })))).toEqual([
    true,
    'refused',
    503,
    'too many event streams',
  ])
})

const parse = (chunks: readonly Uint8Array[]) =>
  Array.fromAsync(
    parseEventStream(
      (async function* () {
        yield* chunks
      })(),
    ),
  )

test('event streams: every line ending, comments, empty values, ids and cut ends', async () => {
  const stream =
    '\uFEFF:note\r\ndata: a\rdata:b\n\nid: 1\nevent:x\ndata\r\n\r\nid: a\0b\nretry: 5\ndata:  c\n\ndata: lost'
  expect(await parse([Buffer.from(stream)])).toEqual([
    { event: 'message', id: null, data: 'a\nb' },
    { event: 'x', id: '1', data: '' },
    { event: 'message', id: '1', data: ' c' },
  ])
})

test('event streams read the same however they are cut, and no bytes throw', async () => {
  const line = fc.oneof(
    fc.constantFrom('', '', 'data: é€𝄞', 'event: x', 'id: 9', ':', 'data', 'id', ': c'),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
  )
  const text = fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(200), { maxLength: 6 }), async (lines, cuts) => {
      const bytes = Buffer.from(`${lines.map(([a, b]) => a + b).join('')}\n.`)
      const at = [0, ...cuts.map(cut => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length]
      const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end))
      expect(await parse(chunks)).toEqual(await parse([bytes]))
    }),
  )
  await fc.assert(fc.asyncProperty(fc.array(fc.uint8Array()), async chunks => void (await parse(chunks))))
  await expect(parse([Buffer.alloc(5_000_000, 'x')])).rejects.toThrow(/more than 4 MiB/)
})
