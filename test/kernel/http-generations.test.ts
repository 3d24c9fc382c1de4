// Swapping routes under load: nobody loses a request, streams and upgraded connections live on, owners are drained.
import { Agent, request } from 'node:https'
import { connect, type TLSSocket } from 'node:tls'
import { type Route, route, streamReply } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { callHttps, later, ok, owned, startFront, until } from './front-under-test.ts'

test('500 swaps under load: every request is answered with 200', async () => {
  const { front } = await startFront([owned(ok())])
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  later(() => agent.destroy())
  const statuses: number[] = []
  let swapping = true
  const caller = async (): Promise<void> => {
    while (swapping) statuses.push((await callHttps(front.port, 'GET', '/api/v1/ok', { agent })).status)
  }
  const callers = Array.from({ length: 8 }, caller)
  for (let i = 0; i < 500; i++) await front.publish([owned(ok()), owned(ok(`/other${i}`), 'two')])
  swapping = false
  await Promise.all(callers)
  expect(statuses.length).toBeGreaterThan(500)
  expect(statuses.filter(status => status !== 200)).toEqual([])
})

/** A stream that says `tick` when told to. */
function ticking(path: string): { route: Route; tick(): void; ended: Promise<string> } {
  let wake = (): void => {}
  let end: (how: string) => void
  const ended = new Promise<string>(resolve => {
    end = resolve
  })
  const declared = route({
    method: 'GET',
    path,
    summary: '',
    lanes: 'open',
    stream: 'text/plain',
    handler: ({ signal }) =>
      streamReply(
        {},
        (async function* () {
          signal.addEventListener('abort', () => wake())
          yield 'first\n'
          while (true) {
            await new Promise<void>(done => {
              wake = done
            })
            if (signal.aborted) return end('aborted')
            yield 'tick\n'
          }
        })(),
      ),
  })
  return { route: declared, tick: () => wake(), ended }
}

function follow(
  port: number,
  path: string,
): { text(): string; closed: Promise<'end' | 'cut'>; leave(): void } {
  let text = ''
  const sent = request({ host: '127.0.0.1', port, path, rejectUnauthorized: false, agent: false })
  const closed = new Promise<'end' | 'cut'>(resolve => {
    sent.on('error', () => resolve('cut'))
    sent.on('response', response => {
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve('end'))
      response.on('error', () => resolve('cut'))
    })
  })
  sent.end()
  return { text: () => text, closed, leave: () => sent.destroy() }
}

test('a stream outlives swaps of others and ends with its own extension', async () => {
  const stopping = new AbortController()
  const stream = ticking('/s')
  const { front } = await startFront([owned(stream.route, 'streamer', stopping.signal), owned(ok())])
  const reader = follow(front.port, '/api/v1/s')
  await until(() => reader.text() === 'first\n')
  await front.publish([owned(stream.route, 'streamer', stopping.signal)])
  await front.publish([])
  stream.tick()
  await until(() => reader.text() === 'first\ntick\n')
  stopping.abort()
  await front.drain('streamer', 2000)
  expect(await stream.ended).toBe('aborted')
  expect(await reader.closed).toBe('end')
})

test("a reader that leaves aborts the handler's signal", async () => {
  const stream = ticking('/s')
  const { front, faults } = await startFront([owned(stream.route)])
  const reader = follow(front.port, '/api/v1/s')
  await until(() => reader.text() === 'first\n')
  reader.leave()
  expect(await stream.ended).toBe('aborted')
  await front.drain('one', 5000)
  expect(faults).toEqual([])
})

test('what does not end is cut after the grace, and nobody else is', async () => {
  const never = ok('/never', () => new Promise(() => {}))
  const stream = ticking('/s')
  const { front } = await startFront([owned(never, 'stuck'), owned(stream.route, 'streamer')])
  const stuck = follow(front.port, '/api/v1/never')
  const reader = follow(front.port, '/api/v1/s')
  await until(() => reader.text() === 'first\n')
  await front.publish([owned(stream.route, 'streamer')])
  const before = Date.now()
  await front.drain('stuck', 200)
  expect(Date.now() - before).toBeLessThan(2000)
  expect(await stuck.closed).toBe('cut')
  stream.tick()
  await until(() => reader.text() === 'first\ntick\n')
})

test('a stream that fails half-way cuts the answer instead of ending it', async () => {
  const broken = route({
    method: 'GET',
    path: '/s',
    summary: '',
    lanes: 'open',
    stream: 'text/plain',
    handler: () =>
      streamReply(
        {},
        (async function* () {
          yield 'half'
          throw new Error('lost')
        })(),
      ),
  })
  const { front, faults } = await startFront([owned(broken)])
  expect(await follow(front.port, '/api/v1/s').closed).toBe('cut')
  expect(faults.map(({ during }) => during)).toEqual(['GET /s'])
})

test('a slow reader holds the source back', async () => {
  let made = 0
  const block = Buffer.alloc(65536)
  const flood = route({
    method: 'GET',
    path: '/flood',
    summary: '',
    lanes: 'open',
    stream: 'application/octet-stream',
    handler: ({ signal }) =>
      streamReply(
        {},
        (async function* () {
          while (!signal.aborted) {
            made++
            yield block
          }
        })(),
      ),
  })
  const { front } = await startFront([owned(flood)])
  const socket = await rawSocket(front.port, 'GET /api/v1/flood HTTP/1.1\r\nHost: localhost\r\n\r\n')
  socket.pause()
  await until(() => made > 2)
  await new Promise(done => setTimeout(done, 300))
  const held = made
  await new Promise(done => setTimeout(done, 300))
  expect(made).toBe(held)
  expect(made).toBeLessThan(500)
})

test('a reader that never reads again is cut off when its stream says so', async () => {
  const tooSlow = new AbortController()
  let wasToldGone = false
  const flood = route({
    method: 'GET',
    path: '/flood',
    summary: '',
    lanes: 'open',
    stream: 'application/octet-stream',
    handler: ({ signal }) => {
      signal.addEventListener('abort', () => {
        wasToldGone = true
      })
      const blocks = async function* () {
        for (;;) yield Buffer.alloc(65536)
      }
      return streamReply({}, blocks(), tooSlow.signal)
    },
  })
  const { front, faults } = await startFront([owned(flood)])
  const socket = await rawSocket(front.port, 'GET /api/v1/flood HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await new Promise(done => socket.once('data', done))
  socket.pause()
  await new Promise(done => setTimeout(done, 300))
  expect(wasToldGone).toBe(false)
  tooSlow.abort()
  await until(() => wasToldGone)
  expect(faults).toEqual([])
})

async function rawSocket(port: number, text: string): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  later(() => void socket.destroy())
  socket.on('error', () => {})
  await new Promise(done => socket.once('secureConnect', done))
  socket.write(text)
  return socket
}

const echo = (path = '/echo'): Route =>
  route({
    method: 'GET',
    path,
    summary: '',
    lanes: 'loopback',
    query: z.object({ hello: z.string() }),
    upgrade: ({ socket, query }) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n${query.hello}`,
      )
      socket.pipe(socket)
    },
  })
const upgrade = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`

test('an upgraded connection outlives swaps and is cut with its owner', async () => {
  const { front } = await startFront([owned(echo(), 'echoing'), owned(ok())])
  const socket = await rawSocket(front.port, upgrade('/api/v1/echo?hello=hi'))
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  await until(() => text.endsWith('hi'))
  await front.publish([])
  socket.write(' there')
  await until(() => text.endsWith('hi there'))
  const gone = new Promise(done => socket.once('close', done))
  await front.drain('echoing', 50)
  await gone
})

test('upgrades pass lanes and schemas, and other routes answer them as plain HTTP', async () => {
  const admin = { ...echo('/admin'), lanes: { plugin: false, device: false } } as Route
  const { front } = await startFront([owned(echo()), owned(admin), owned(ok())])
  const firstLine = async (path: string): Promise<string> => {
    const socket = await rawSocket(front.port, upgrade(path))
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    await new Promise(done => socket.once('end', done))
    return text.split('\r\n')[0]!
  }
  expect(await firstLine('/api/v1/admin?hello=x')).toContain(' 401 ')
  expect(await firstLine('/api/v1/echo')).toContain(' 400 ')
  expect(await firstLine('/api/v1/none')).toContain(' 404 ')
  expect(await firstLine('/api/v1/ok')).toContain(' 200 ')
  expect((await callHttps(front.port, 'GET', '/api/v1/echo?hello=x')).status).toBe(426)
})

test('a bad route costs its owner and nobody else, with the reason', async () => {
  const { front, call } = await startFront([])
  const bad = (path: string, change: object) => ({ ...ok(path), ...change }) as unknown as Route
  const leftOut = await front.publish([
    owned(ok('/a/{id}'), 'first'),
    owned(ok('/mine'), 'second'),
    owned(ok('/a/{name}'), 'second'),
    owned(bad('/b', { lanes: undefined }), 'third'),
    owned(bad('/c', { replies: { 200: z.bigint() } }), 'fourth'),
    owned(bad('c:d', {}), 'fifth'),
    owned(bad('/e', { handler: undefined }), 'sixth'),
    owned(bad('/f', { lanes: { plugin: false } }), 'seventh'),
    owned(ok('/mine'), 'eighth'),
    owned(bad('/g', { bodyLimit: -1 }), 'ninth'),
  ])
  expect(leftOut.map(({ message }) => message)).toEqual([
    '[second] GET /a/{name}: first has this route already',
    '[third] GET /b: lanes are missing; write open, loopback, or { plugin, device }',
    expect.stringMatching(/^\[fourth\] GET \/c: a schema cannot be described: .*BigInt/),
    '[fifth] GET c:d: the path must begin with / and write parameters as {name}',
    '[sixth] GET /e: there is no handler',
    '[seventh] GET /f: lanes are missing; write open, loopback, or { plugin, device }',
    expect.stringMatching(/^\[ninth\] GET \/g: .*bodyLimit/),
  ])
  expect(front.routes().map(({ owner }) => owner)).toEqual(['first', 'eighth'])
  expect((await call('GET', '/api/v1/mine')).status).toBe(200)
  expect((await call('GET', '/api/v1/a/1')).status).toBe(200)
})

test('a handler cut short by its own stop answers 503', async () => {
  const stopping = new AbortController()
  const waits = route({
    method: 'GET',
    path: '/wait',
    summary: '',
    lanes: 'open',
    replies: { 204: null },
    handler: ({ signal }) =>
      new Promise<undefined>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const { front, call, faults } = await startFront([owned(waits, 'one', stopping.signal)])
  const answer = call('GET', '/api/v1/wait')
  await new Promise(done => setTimeout(done, 100))
  stopping.abort()
  expect([(await answer).status, (await answer).json]).toEqual([503, { error: 'one is stopping' }])
  await front.drain('one', 1000)
  expect(faults).toEqual([])
})
