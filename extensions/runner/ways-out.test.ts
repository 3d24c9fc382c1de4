// The two ways out of the walls: a forwarded socket that leads to one place, and a proxy that opens granted places only.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { createEgress } from 'svc-host/egress'
import { covers, PermissionError } from 'svc-host/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openForward, type SocketFile } from './forward.ts'
import { openProxy, passedOn, placeOfAuthority, targetOfUrl } from './proxy.ts'

let folder: string
let seen: IncomingMessage['headers'][]
let server: Server
let port: number
let open: SocketFile[]
let refused: string[]
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ways-out-'))
  seen = []
  open = []
  refused = []
  server = createHttpServer((asked, answer) => {
    seen.push(asked.headers)
    answer.end(`you asked for ${asked.url}`)
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  port = (server.address() as AddressInfo).port
})
afterEach(async () => {
  for (const each of open) await each.close()
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

const proxyFor = async (...granted: string[]): Promise<string> => {
  const egress = createEgress(permission => {
    if (!granted.some(each => covers(each, permission)))
      throw new PermissionError(permission, `has not been granted ${permission}`)
  })
  const proxy = await openProxy(join(folder, 'web'), { egress, refused: why => refused.push(why) })
  open.push(proxy)
  return proxy.path
}

/** Sends raw bytes and reads until the other side ends. */
async function raw(socketPath: string, bytes: string): Promise<string> {
  const socket = connect(socketPath)
  socket.on('error', () => {})
  socket.write(bytes)
  return text(socket).catch(() => '')
}
const get = (socketPath: string, url: string, headers: Record<string, string> = {}): Promise<string> =>
  new Promise((done, failed) => {
    const asked = request({ socketPath, path: url, headers: { host: 'elsewhere', ...headers }, agent: false })
    asked.once('error', failed)
    asked.once('response', answer =>
      text(answer).then(body => done(`${answer.statusCode} ${body.trim()}`), failed),
    )
    asked.end()
  })
const tunnel = (socketPath: string, place: string): Promise<Socket | string> =>
  new Promise((done, failed) => {
    const asked = request({ socketPath, method: 'CONNECT', path: place, agent: false })
    asked.once('error', failed)
    asked.once('connect', (answer, socket: Socket, head) => {
      if (answer.statusCode === 200) return done(socket)
      text(socket).then(rest => done(`${answer.statusCode} ${`${head}${rest}`.trim()}`), failed)
    })
    asked.end()
  })

test('a granted place answers, as a request and as a tunnel, and says nothing of the proxy', async () => {
  const path = await proxyFor(`network:127.0.0.1:${port}`)
  const headers = { connection: 'x-hop', 'x-hop': '1', 'proxy-authorization': 'Basic x', 'x-own': '2' }
  expect(await get(path, `http://127.0.0.1:${port}/a?b`, headers)).toBe('200 you asked for /a?b')
  expect(seen[0]).toMatchObject({ host: `127.0.0.1:${port}`, 'x-own': '2' })
  expect(Object.keys(seen[0]!)).not.toContain('x-hop')
  expect(Object.keys(seen[0]!)).not.toContain('proxy-authorization')
  const socket = (await tunnel(path, `127.0.0.1:${port}`)) as Socket
  socket.write('GET /through HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  expect(await text(socket)).toContain('you asked for /through')
  expect(refused).toEqual([])
})

test.each([
  ['another port', (n: number) => `127.0.0.1:${n === 65535 ? n - 1 : n + 1}`],
  ['another address of this machine', (n: number) => `127.0.0.2:${n}`],
  ['its name, which was not granted', (n: number) => `localhost:${n}`],
  ['this machine in another notation', (n: number) => `[::ffff:7f00:1]:${n}`],
  ['the address of clouds’ secrets', () => '169.254.169.254:80'],
])('%s is refused and told of', async (_name, placeWith) => {
  const path = await proxyFor(`network:127.0.0.1:${port}`, 'network:*.example.com')
  const place = placeWith(port)
  expect(await tunnel(path, place)).toMatch(/^403 has not been granted network:/)
  expect(await get(path, `http://${place}/`)).toMatch(/^403 has not been granted network:/)
  expect(refused).toHaveLength(2)
  expect(seen).toEqual([])
})

test('a granted name that leads into this machine is refused: names are not addresses', async () => {
  const path = await proxyFor(`network:localhost.localdomain:${port}`, `network:ip6-localhost:${port}`)
  for (const name of ['localhost.localdomain', 'ip6-localhost'])
    expect(await tunnel(path, `${name}:${port}`)).toMatch(/^(403|502) /)
  expect(seen).toEqual([])
})

test.each([
  ['no proxy request', 'GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'],
  ['another protocol', 'GET ftp://127.0.0.1/ HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['credentials in the address', 'GET http://a:b@127.0.0.1/ HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a tunnel to no port', 'CONNECT 127.0.0.1 HTTP/1.1\r\nhost: x\r\n\r\n'],
  ['a tunnel to a path', 'CONNECT /etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n'],
])('%s gets 400', async (_name, bytes) => {
  expect(await raw(await proxyFor('network:127.0.0.1:80'), bytes)).toMatch(/^HTTP\/1\.1 400 /)
})

test('nonsense ends its own connection and nothing else', async () => {
  const path = await proxyFor(`network:127.0.0.1:${port}`)
  for (const bytes of ['\0\0\0\0\r\n\r\n', `GET ${'x'.repeat(40_000)} HTTP/1.1\r\n\r\n`, 'A: b\r\n\r\n'])
    expect(await raw(path, bytes)).not.toContain('200')
  expect(await get(path, `http://127.0.0.1:${port}/`)).toMatch(/^200/)
})

test('what nobody answers is told as such, and closing ends open tunnels', async () => {
  const silent = createServer(socket => socket.on('error', () => {}))
  await new Promise<void>(done => silent.listen(0, '127.0.0.1', done))
  const silentPort = (silent.address() as AddressInfo).port
  const path = await proxyFor(`network:127.0.0.1:${silentPort}`, 'network:127.0.0.1:1')
  expect(await get(path, 'http://127.0.0.1:1/')).toMatch(/^502 /)
  expect(await tunnel(path, '127.0.0.1:1')).toMatch(/^502 /)
  const socket = (await tunnel(path, `127.0.0.1:${silentPort}`)) as Socket
  const closed = new Promise(done => socket.once('close', done))
  socket.resume().on('error', () => {})
  await open.pop()!.close()
  await closed
  silent.close()
})

test('any text is a place with a port, or none', () => {
  fc.assert(
    fc.property(fc.string(), fc.domain(), fc.integer({ min: -1, max: 70_000 }), (noise, domain, number) => {
      for (const authority of [
        noise,
        `${noise}:${number}`,
        `[${noise}]:${number}`,
        `${domain}${noise}:${number}`,
      ]) {
        const place = placeOfAuthority(authority)
        if (place) expect(`${place.host}${place.port}`).toMatch(/^[a-z0-9._:-]+$/)
        const target = targetOfUrl(`http://${authority}/${noise}`)
        if (target) expect(target.path).toMatch(/^\/[^\s]*$/)
      }
      const proper = number >= 1 && number <= 65535
      expect(placeOfAuthority(`${domain}:${number}`)).toEqual(
        proper ? { host: domain.toLowerCase(), port: number } : undefined,
      )
      expect(Object.keys(passedOn({ connection: noise, te: noise, [domain]: noise }))).not.toContain('te')
    }),
  )
})

test('a forward leads where its place is now, one direction’s end does not end the other, and it is cut without one', async () => {
  const echo = createServer({ allowHalfOpen: true }, socket => socket.pipe(socket))
  await new Promise<void>(done => echo.listen(0, '127.0.0.1', done))
  let place: number | undefined = (echo.address() as AddressInfo).port
  const forward = await openForward(join(folder, 'api'), async () => {
    if (place === undefined) throw new Error('no host is running')
    return { host: '127.0.0.1', port: place }
  })
  open.push(forward)
  const socket = connect({ path: forward.path, allowHalfOpen: true })
  socket.end('there and back')
  expect(await text(socket)).toBe('there and back')
  place = undefined
  expect(await raw(forward.path, 'hello?')).toBe('')
  echo.close()
})
