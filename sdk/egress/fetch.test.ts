// Requests for strangers, against servers that mean harm and names that change their minds.
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { loadIdentity } from '../../kernel/identity.ts'
import { covers } from '../permission.ts'
import { type Answered, createFetch } from './fetch.ts'

const open: { close(): void }[] = []
afterEach(() => {
  for (const each of open.splice(0)) each.close()
})
const listen = async (server: Server | ReturnType<typeof createTcpServer>): Promise<number> => {
  const sockets = new Set<Socket>()
  server.on('connection', socket => sockets.add(socket.on('error', () => {})))
  open.push({
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
const serve = (listener: RequestListener): Promise<number> => listen(createServer(listener))
/** A server that says these bytes, whatever it is asked. */
const say = (text: string): Promise<number> =>
  listen(createTcpServer(socket => void socket.once('data', () => socket.write(text))))

const fetchWith = (grants: string[], options: Parameters<typeof createFetch>[1] = {}) => {
  const fetch = createFetch(permission => {
    if (!grants.some(grant => covers(grant, permission))) throw new Error(`${permission} was not granted`)
  }, options)
  return (
    url: string,
    asked: object = {},
    body?: string,
    signal = new AbortController().signal,
  ): Promise<Answered> => {
    const given = { url, method: 'GET', headers: {}, redirect: 'follow' as const, ...asked }
    return fetch(given, body === undefined ? undefined : Buffer.from(body), signal)
  }
}
const fetchAt = (port: number, options?: object) => fetchWith([`network:localhost:${port}`], options)

test('sends and answers whole', async () => {
  const seen: IncomingMessage[] = []
  const port = await serve((request, response) => {
    seen.push(request)
    request.pipe(response.writeHead(201, { 'x-a': 'b', 'set-cookie': ['c=1', 'd=2'] }))
  })
  const answer = await fetchAt(port)(
    `http://localhost:${port}/p?q`,
    { method: 'POST', headers: { 'x-t': '1' } },
    'grün',
  )
  expect([answer.status, answer.statusText, answer.body.toString(), answer.isRedirected]).toEqual([
    201,
    'Created',
    'grün',
    false,
  ])
  expect(answer.headers.filter(([name]) => name.startsWith('set-c'))).toHaveLength(2)
  expect(seen[0]).toMatchObject({
    url: '/p?q',
    headers: { 'x-t': '1', 'content-length': '5', 'accept-encoding': 'identity' },
  })
})

test('refuses what was not granted before anything is sent, however it is written', async () => {
  let count = 0
  const port = await serve((_, response) => {
    count += 1
    response.end()
  })
  const fetch = fetchWith(['network:example.com', `network:*.0.0.1:${port}`, 'network:localhost:1'])
  const hosts = [
    '127.0.0.1',
    'localhost',
    '2130706433',
    '0x7f.1',
    '017700000001',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '0',
    '127.1',
    'example.com',
    'localhost.',
  ]
  for (const host of hosts)
    await expect(fetch(`http://${host}:${port}/`), host).rejects.toThrow('was not granted')
  for (const url of [
    'file:///etc/passwd',
    'data:,x',
    'ftp://localhost/',
    `//localhost:${port}`,
    'x',
    'http://',
  ])
    await expect(fetch(url), url).rejects.toThrow('takes http:// and https:// URLs')
  await expect(fetchAt(port)(`http://u:p@localhost:${port}/`)).rejects.toThrow('name or password')
  expect(count).toBe(0)
})

test('a name that changes its mind is taken at the word that was checked', async () => {
  const port = await serve((_, response) => void response.end('inner'))
  const turns = [['10.0.0.1'], ['127.0.0.1'], ['169.254.169.254', '127.0.0.1']]
  const resolve = (_name: string, _options: object, done: (error: null, found: object[]) => void) =>
    done(
      null,
      turns.shift()!.map(address => ({ address, family: 4 })),
    )
  const fetch = fetchWith([`network:evil.example:${port}`, `network:10.0.0.1:${port}`], {
    resolve: resolve as never,
    limitMs: 150,
  })
  // The first answer is granted and goes there, where nobody is; each later one is judged anew.
  await expect(fetch(`http://evil.example:${port}/`)).rejects.toThrow(/did not answer|ECONN|EHOST|ENET/)
  await expect(fetch(`http://evil.example:${port}/`)).rejects.toThrow(
    'is at 127.0.0.1, which is not a public address',
  )
  await expect(fetch(`http://evil.example:${port}/`)).rejects.toThrow('is at 169.254.169.254')
  expect(turns).toEqual([])
})

test('redirects are followed by the same rules, and lose what was meant for another', async () => {
  const seen: [string, IncomingMessage['headers']][] = []
  const other = await serve((request, response) => {
    seen.push([`${request.method} ${request.url}`, request.headers])
    response.end('there')
  })
  const port = await serve((request, response) => {
    const [, status, to] = /^\/(\d+)\/(.*)$/.exec(request.url!)!
    response.writeHead(Number(status), { location: decodeURIComponent(to!) }).end()
  })
  const fetch = fetchWith([`network:localhost:${port}`, `network:localhost:${other}`])
  const go = (status: number, to: string, asked: object = {}, body?: string) =>
    fetch(`http://localhost:${port}/${status}/${encodeURIComponent(to)}`, asked, body)
  const headers = { authorization: 'Bearer x', cookie: 'a=b', 'content-type': 'text/x', 'x-kept': '1' }
  const away = `http://localhost:${other}/z`
  expect(await go(302, away, { method: 'POST', headers }, 'body')).toMatchObject({
    url: away,
    isRedirected: true,
  })
  expect(seen[0]![0]).toBe('GET /z')
  expect(Object.keys(seen[0]![1])).not.toContain('authorization')
  expect(Object.keys(seen[0]![1])).toEqual(
    expect.not.arrayContaining(['cookie', 'content-type', 'content-length']),
  )
  expect(seen[0]![1]['x-kept']).toBe('1')
  await go(307, away, { method: 'POST', headers }, 'body')
  expect(seen[1]).toMatchObject(['POST /z', { 'content-length': '4', 'content-type': 'text/x' }])
  expect((await go(302, away, { redirect: 'manual' })).status).toBe(302)
  await expect(go(302, away, { redirect: 'error' })).rejects.toThrow('redirects to')
  for (const to of [
    `http://127.0.0.1:${port}/`,
    `http://[::1]:${port}/`,
    `http://2130706433:${other}/`,
    '//169.254.169.254/latest',
  ])
    await expect(go(302, to), to).rejects.toThrow('was not granted')
  for (const to of ['file:///etc/passwd', 'gopher://x/'])
    await expect(go(301, to), to).rejects.toThrow('takes http')
  const loop = await serve((_, response) => void response.writeHead(302, { location: '/' }).end())
  await expect(fetchAt(loop)(`http://localhost:${loop}/`)).rejects.toThrow('redirects over 5 times')
})

test('heads that would say more than they seem to are refused', async () => {
  const port = await serve((_, response) => void response.end())
  const fetch = fetchAt(port)
  const url = `http://localhost:${port}/`
  for (const headers of [{ a: 'x\r\nb: c' }, { 'a\r\nb': 'c' }, { a: 'x\0' }, { 'a b': 'c' }, { a: '…' }])
    await expect(fetch(url, { headers }), JSON.stringify(headers)).rejects.toThrow(
      /Invalid character|valid HTTP token/,
    )
  for (const name of [
    'host',
    'content-length',
    'transfer-encoding',
    'connection',
    'upgrade',
    'proxy-authorization',
  ])
    await expect(fetch(url, { headers: { [name]: 'x' } }), name).rejects.toThrow(
      `the header ${name} is set by the host`,
    )
  await expect(fetch(url, { headers: { a: 'x'.repeat(16385) } })).rejects.toThrow('headers are over')
  await expect(fetch(url, { method: 'CONNECT' })).rejects.toThrow('does not do CONNECT')
  await expect(fetch(url, {}, 'body')).rejects.toThrow('a GET request has no body')
})

test('servers that never end, trickle or lie cost no more than the limits', async () => {
  const endless = await serve((_, response) => {
    const more = (): void =>
      void (response.write(Buffer.alloc(256 * 1024)) ? setImmediate(more) : response.once('drain', more))
    more()
  })
  await expect(fetchAt(endless)(`http://localhost:${endless}/`)).rejects.toThrow(
    'the answer is over 4194304 bytes',
  )
  const url = (port: number): string => `http://localhost:${port}/`
  const late = { limitMs: 200 }
  const trickle = await serve((_, response) => {
    const timer = setInterval(() => response.write('.'), 20)
    response.on('close', () => clearInterval(timer))
  })
  await expect(fetchAt(trickle, late)(url(trickle))).rejects.toThrow('did not answer within 0.2 s')
  const mute = await say('')
  await expect(fetchAt(mute, late)(url(mute))).rejects.toThrow('did not answer within 0.2 s')
  const half = await say('HTTP/1.1 200 OK\r\ncontent-length: 10\r\nx-')
  await expect(fetchAt(half, late)(url(half))).rejects.toThrow('did not answer within 0.2 s')
  const upgrade = await say('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')
  await expect(fetchAt(upgrade, late)(url(upgrade))).rejects.toThrow('wants to change the protocol')
  const wide = await say(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  await expect(fetchAt(wide, late)(url(wide))).rejects.toThrow(/overflow/i)
  const twice = await say(
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
  )
  await expect(fetchAt(twice, late)(url(twice))).rejects.toThrow()
})

test('a request that is not wanted any more ends, and no more run at once than may', async () => {
  let running = 0
  let most = 0
  const port = await serve((request, response) => {
    running += 1
    most = Math.max(most, running)
    const timer = setTimeout(() => response.end('x'), request.url === '/slow' ? 60_000 : 20)
    response.on('close', () => {
      running -= 1
      clearTimeout(timer)
    })
  })
  const fetch = fetchAt(port)
  const stop = new AbortController()
  const slow = fetch(`http://localhost:${port}/slow`, {}, undefined, stop.signal)
  setTimeout(() => stop.abort(), 30)
  await expect(slow).rejects.toThrow('aborted')
  const many = Array.from({ length: 80 }, () =>
    fetch(`http://localhost:${port}/`).then(({ status }) => status, String),
  )
  const results = await Promise.all(many)
  expect(most).toBe(8)
  expect(results.filter(status => status === 200)).toHaveLength(72)
  expect(results.find(status => status !== 200)).toContain('8 requests are under way and 64 wait')
})

test('a server that cannot show who it is is not spoken to', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-egress-'))
  const { privateKeyPem: key, certificatePem: cert } = await loadIdentity(folder, () => {})
  await rm(folder, { recursive: true })
  let count = 0
  const port = await listen(
    createTlsServer({ key, cert }, (_, response) => {
      count += 1
      response.end()
    }),
  )
  await expect(fetchAt(port)(`https://localhost:${port}/`)).rejects.toThrow(/self-signed certificate/)
  expect(count).toBe(0)
})
