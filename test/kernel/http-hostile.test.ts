// Strangers on the port: garbage, half requests and cut connections neither crash the listener nor stay counted.
import { connect as connectTcp } from 'node:net'
import { connect } from 'node:tls'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createFront } from '../../kernel/http.ts'
import { parseBind } from '../../kernel/listener.ts'
import { adminToken, callHttps, later, ok, owned, startFront, testIdentity } from './front-under-test.ts'

/** Sends bytes and resolves to all that came back before the connection closed or `limitMs` passed. */
function send(port: number, bytes: Uint8Array, tls: boolean, limitMs = 1000): Promise<string> {
  return new Promise(resolve => {
    let text = ''
    const socket = tls
      ? connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
      : connectTcp(port, '127.0.0.1')
    socket.on(tls ? 'secureConnect' : 'connect', () => socket.end(bytes))
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', () => {})
    const timer = setTimeout(() => socket.destroy(), limitMs)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(text)
    })
  })
}

const request = (path: string, extra = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${extra}Connection: close\r\n\r\n`

test('random bytes, on TCP and inside TLS, are refused and the next caller is answered', async () => {
  const { front } = await startFront([owned(ok())])
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), fc.boolean(), async (bytes, tls) => {
      const text = await send(front.port, bytes, tls)
      expect(text === '' || !tls || /^HTTP\/1\.1 4\d\d /.test(text)).toBe(true)
    }),
    { numRuns: 60 },
  )
  expect((await callHttps(front.port, 'GET', '/api/v1/ok')).status).toBe(200)
})

test('mutated requests get a 2xx, 4xx or silence, never a 5xx', async () => {
  const { front, faults } = await startFront([owned(ok('/ok/{id}'))])
  const whole = request('/api/v1/ok/1?a=b', 'Accept: */*\r\nContent-Type: application/json\r\n')
  const mutation = fc.record({
    at: fc.nat(whole.length - 1),
    cut: fc.nat(3),
    put: fc.string({ maxLength: 4, unit: 'binary' }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 3 }), async mutations => {
      const text = mutations.reduce((t, { at, cut, put }) => t.slice(0, at) + put + t.slice(at + cut), whole)
      expect(await send(front.port, Buffer.from(text), true)).toMatch(/^(HTTP\/1\.1 [24]\d\d |$)/)
    }),
    { numRuns: 80 },
  )
  expect(faults).toEqual([])
})

test('any path is answered with a JSON error or a result', async () => {
  const { call } = await startFront([owned(ok('/ok/{id}'))])
  await fc.assert(
    fc.asyncProperty(fc.webPath(), fc.webQueryParameters(), async (path, query) => {
      const { status, json } = await call('GET', `/api/v1${path}?${query}`)
      expect([200, 400, 404]).toContain(status)
      expect(json).toBeTypeOf('object')
    }),
    { numRuns: 40 },
  )
})

test('bytes that are no request, and headers beyond 16 KiB, are answered in JSON', async () => {
  const { front } = await startFront([owned(ok())])
  const refusal = async (text: string) => {
    const [head, body] = (await send(front.port, Buffer.from(text), true, 2000)).split('\r\n\r\n')
    return [head!.split('\r\n')[0], JSON.parse(body!)]
  }
  expect(await refusal('SSH-2.0-x\r\n\r\n')).toEqual([
    'HTTP/1.1 400 Bad Request',
    { error: 'this is no HTTP request' },
  ])
  const [line] = await refusal(request('/api/v1/ok', `X: ${'x'.repeat(20_000)}\r\n`))
  expect(line).toBe('HTTP/1.1 431 Request Header Fields Too Large')
})

test('a connection cut with requests in the pipeline leaves nothing counted', async () => {
  const never = ok('/never', () => new Promise(() => {}))
  const { front } = await startFront([owned(never)])
  await send(
    front.port,
    Buffer.from(request('/api/v1/never').replace('close', 'keep-alive').repeat(5)),
    true,
    100,
  )
  const before = Date.now()
  await front.drain('one', 5000)
  expect(Date.now() - before).toBeLessThan(1000)
})

test('TLS below 1.2 is refused', async () => {
  const { front } = await startFront([owned(ok())])
  const options = {
    rejectUnauthorized: false,
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT:@SECLEVEL=0',
  } as const
  await expect(callHttps(front.port, 'GET', '/api/v1/ok', options)).rejects.toThrow()
})

test('a port in use and an address that is not here are sentences', async () => {
  const { front } = await startFront([])
  const listen = async (host: string, port: number) => {
    const second = createFront({
      bind: { host, port },
      identity: await testIdentity(),
      adminToken,
      report: () => {},
    })
    later(() => second.close(0))
    return second.listen()
  }
  await expect(listen('127.0.0.1', front.port)).rejects.toThrow(
    `cannot listen on 127.0.0.1:${front.port}: another program listens there, perhaps another svc-host; stop it or`,
  )
  await expect(listen('192.0.2.1', 0)).rejects.toThrow(
    'cannot listen on 192.0.2.1:0: this machine does not have that address',
  )
})

test('the wildcard listens on loopback of both families', async () => {
  const { front } = await startFront([owned(ok())], { bind: { host: '::', port: 0 } })
  expect((await callHttps(front.port, 'GET', '/api/v1/ok')).status).toBe(200)
  expect((await callHttps(front.port, 'GET', '/api/v1/ok', { host: '::1' })).status).toBe(200)
})

test('addresses to listen on are read or refused with a sentence', () => {
  expect(parseBind('[::]:47990')).toEqual({ host: '::', port: 47990 })
  expect(parseBind('127.0.0.1:0')).toEqual({ host: '127.0.0.1', port: 0 })
  for (const text of [
    '',
    '47990',
    'localhost:1',
    '::1:80',
    '[1.2.3.4]:80',
    '1.2.3.4:65536',
    '1.2.3:80',
    '1.2.3.4:',
  ])
    expect(() => parseBind(text)).toThrow(/is no address to listen on; write IP:PORT/)
  fc.assert(
    fc.property(fc.ipV4(), fc.nat(65535), (host, port) => {
      expect(parseBind(`${host}:${port}`)).toEqual({ host, port })
    }),
  )
  fc.assert(
    fc.property(fc.string(), text => {
      try {
        expect(parseBind(text).port).toBeLessThan(65536)
      } catch (error) {
        expect((error as Error).name).toBe('UsageError')
      }
    }),
  )
})
