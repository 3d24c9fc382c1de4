// The event stream over real sockets: headers, replay, resume over a switch, slow readers, the cap, hostile queries.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { parseEventStream, type ServerSentEvent } from 'svc-host/client'
import { event } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'

const tick = event('test.tick', z.object({ n: z.int(), padding: z.string().optional() }))

let host: TestHost
const opened: { destroy(): unknown }[] = []
beforeEach(async () => {
  host = await startHost({ extensions: ['events'], config: { events: { heartbeatMs: 60 } } })
})
afterEach(async () => {
  for (const each of opened.splice(0)) each.destroy()
  await host.stop()
})

/** Frames of one stream as they come. */
async function follow(path: string, headers: Record<string, string> = {}) {
  const answer = await host.open('GET', path, { headers })
  opened.push(answer)
  const frames = parseEventStream(answer)
  const next = async (): Promise<ServerSentEvent | undefined> => (await frames.next()).value
  /** The names of all frames up to `live`. */
  const toLive = async (): Promise<string[]> => {
    const names: string[] = []
    for (let frame = await next(); frame !== undefined; frame = await next()) {
      names.push(frame.event)
      if (frame.event === 'live') return names
    }
    throw new Error(`the stream ended after ${names.join(', ')}`)
  }
  return { answer, next, toLive }
}

const hangUp = async (answer: IncomingMessage): Promise<void> => {
  const closed = once(answer, 'close')
  answer.destroy()
  await closed
}

test('the answer is an event stream that nobody in between may keep or change', async () => {
  const { answer, toLive, next } = await follow('/events')
  expect(answer.statusCode).toBe(200)
  expect(answer.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  })
  expect(answer.headers).not.toHaveProperty('content-encoding')
  expect(await toLive()).toEqual([...host.events().map(({ kind }) => kind), 'live'])
  const record = host.emit(tick, { n: 7 })
  expect(await next()).toEqual({ event: 'test.tick', id: String(record.seq), data: JSON.stringify(record) })
})

test('a quiet stream carries comment lines', async () => {
  const answer = await host.open('GET', '/events?since=9007199254740991')
  opened.push(answer)
  let text = ''
  for await (const chunk of answer) {
    text += chunk
    if (text.split(':\n\n').length > 3) break
  }
  expect(text).toBe(`event: live\ndata: {"live":true}\n\n${':\n\n'.repeat(3)}`)
})

test('Last-Event-ID and since resume; the header wins; a cursor that is no number is refused or ignored', async () => {
  for (let n = 0; n < 4; n++) host.emit(tick, { n })
  const newest = host.events().at(-1)!.seq
  expect(await (await follow(`/events?since=${newest - 2}`)).toLive()).toEqual([
    'test.tick',
    'test.tick',
    'live',
  ])
  const both = await follow('/events?since=0', { 'last-event-id': String(newest - 1) })
  expect(await both.toLive()).toEqual(['test.tick', 'live'])
  const ignored = await follow(`/events?since=${newest}`, { 'last-event-id': 'null' })
  expect(await ignored.toLive()).toEqual(['live'])
  for (const since of ['', 'x', '-1', '1.5', '0x10', '1e3', '%201', '1&since=2'])
    expect((await host.inject('GET', `/events?since=${since}`)).status, since).toBe(400)
})

test('after a restart of the host the old cursor is told that events were missed', async () => {
  expect(await (await follow('/events', { 'last-event-id': '5000' })).toLive()).toEqual(['dropped', 'live'])
})

test('only the kinds asked for come, and the control frames', async () => {
  host.emit(tick, { n: 1 })
  const stream = await follow('/events?kinds=test.*,nobody.knows')
  expect(await stream.toLive()).toEqual(['test.tick', 'live'])
})

test('only the admin and plugins may follow, and there is no HEAD', async () => {
  expect((await host.inject('GET', '/events', { token: null })).status).toBe(401)
  expect((await host.inject('HEAD', '/events')).status).toBe(405)
})

test('the 33rd stream is refused, and one that hangs up makes room', async () => {
  const streams = await Promise.all(Array.from({ length: 32 }, () => follow('/events')))
  const refused = await host.inject('GET', '/events')
  expect([refused.status, refused.json]).toEqual([503, { error: 'too many event streams' }])
  await hangUp(streams[3]!.answer)
  await expect.poll(async () => (await follow('/events')).answer.statusCode).toBe(200)
  // One event reaches all that are left, over as many connections.
  host.emit(tick, { n: 1 })
  for (const { answer, next } of streams.filter(({ answer }) => !answer.destroyed)) {
    let frame = await next()
    while (frame && frame.event !== 'test.tick') frame = await next()
    expect(frame?.event).toBe('test.tick')
    answer.destroy()
  }
})

test('switching the extension off ends the stream cleanly, and a resume loses nothing', async () => {
  const first = await follow('/events?kinds=test.*')
  await first.toLive()
  const seen = host.emit(tick, { n: 1 })
  expect((await first.next())?.id).toBe(String(seen.seq))

  await host.extensions.enable('events', false)
  expect(await first.next()).toBeUndefined()
  expect(first.answer.complete).toBe(true)
  expect((await host.inject('GET', '/events')).status).toBe(404)
  for (let n = 2; n < 5; n++) host.emit(tick, { n })
  await host.extensions.enable('events', true)

  const again = await follow('/events?kinds=test.*', { 'last-event-id': String(seen.seq) })
  const numbers = [await again.next(), await again.next(), await again.next()]
  expect(numbers.map(frame => JSON.parse(frame!.data).n)).toEqual([2, 3, 4])
  expect((await again.next())?.event).toBe('live')
})

/** A TLS connection that has asked for the stream and reads nothing. */
async function stalled(): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port: host.port, rejectUnauthorized: false })
  opened.push(socket)
  await once(socket, 'secureConnect')
  const head = `GET /api/v1/events?kinds=test.* HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${host.adminToken}\r\n\r\n`
  socket.write(head)
  await once(socket, 'readable')
  return socket
}

test('a slow reader is closed in good order, and its cursor brings it the rest', async () => {
  const socket = await stalled()
  const other = await follow('/events?kinds=test.*')
  await other.toLive()
  const padding = 'x'.repeat(64 * 1024)
  const total = 500
  for (let n = 0; n < total; n++) {
    host.emit(tick, { n, padding })
    // The other reader keeps up all the while: nobody waits for the slow one.
    expect(JSON.parse((await other.next())!.data).n).toBe(n)
  }
  // Only now does the slow one read; the answer ends as a whole one does, with its last chunk.
  let text = ''
  socket.setEncoding('utf8')
  for await (const chunk of socket) {
    text += chunk
    if (text.endsWith('0\r\n\r\n')) break
  }
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(match => Number(match[1]))
  expect(ids.length).toBeGreaterThan(0)
  expect(ids.length).toBeLessThan(total - 256)

  const resumed = await follow('/events?kinds=test.*', { 'last-event-id': String(ids.at(-1)) })
  const rest = (await resumed.toLive()).filter(name => name === 'test.tick')
  expect(ids.length + rest.length).toBe(total)
})

test('no query and no header breaks the host', async () => {
  const piece = fc.oneof(fc.string(), fc.stringMatching(/^[\d*.,a-z%&=]{0,40}$/))
  await fc.assert(
    fc.asyncProperty(piece, piece, fc.string({ maxLength: 60 }), async (kinds, since, id) => {
      const query = new URLSearchParams({ kinds, since })
      const header = id.replace(/[^\t\x20-\x7e]/g, '')
      const answer = await host.open('GET', `/events?${query}`, { headers: { 'last-event-id': header } })
      expect(answer.statusCode).toBe(/^\d+$/.test(since) ? 200 : 400)
      await hangUp(answer)
    }),
    { numRuns: 40 },
  )
  expect(host.logs.filter(({ level }) => level >= 50)).toEqual([])
})
