// The way out for a process without a network of its own: an HTTP proxy on a socket file that opens granted places only.
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Egress } from 'svc-host/egress'
import { isPermissionError } from 'svc-host/sdk'
import { join, listenOn, type Place, type SocketFile } from './forward.ts'

/** A tunnel or an answer in which nothing moves for this long is cut. */
const idleMs = 5 * 60_000
const connectMs = 10_000

export interface ProxyOptions {
  /** What may be reached. */
  readonly egress: Egress
  /** Told of each refusal, with the reason as a sentence. */
  refused(why: string): void
}

/** Host and port that a CONNECT asks for, `name:443` or `[::1]:443`; undefined: it is neither. */
export function placeOfAuthority(text: string): Place | undefined {
  const [, bracketed, plain, digits] =
    /^(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):(\d{1,5})$/.exec(text) ?? []
  const host = (bracketed ?? plain)?.toLowerCase()
  const port = Number(digits)
  return host !== undefined && port >= 1 && port <= 65535 ? { host, port } : undefined
}

/** Where a request in absolute form goes, and what is asked for there; undefined: not a plain `http://` address. */
export function targetOfUrl(text: string): (Place & { readonly path: string }) | undefined {
  if (!/^http:\/\/[^\s\p{Cc}]+$/iu.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  if (url.username || url.password) return undefined
  const place = placeOfAuthority(`${url.hostname}:${url.port || 80}`)
  return place && { ...place, path: `${url.pathname}${url.search}` }
}

/** What is said between two neighbours only, and must not be passed on. */
const betweenNeighbours = new Set(
  'connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
)
export function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? '').split(',').map(each => each.trim().toLowerCase())
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !betweenNeighbours.has(name) && !named.includes(name)),
  )
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Opens the proxy on `path`, whose folder must be closed to everybody else. */
export function openProxy(path: string, { egress, refused }: ProxyOptions): Promise<SocketFile> {
  const server = createServer({ maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: idleMs })

  /** Where to connect: names are looked up and checked on the way there. */
  const route = ({ host, port }: Place) => {
    egress.check({ host: host.includes(':') ? `[${host}]` : host, port })
    return { host, port, lookup: egress.lookup(port) }
  }
  const statusOf = (error: unknown): 403 | 502 => {
    if (!isPermissionError(error)) return 502
    refused(error.message)
    return 403
  }

  server.on('connect', (asked: IncomingMessage, inner: Socket, head: Buffer) => {
    let isOpen = false
    const close = (status: number, why: string): void => {
      if (isOpen) return void inner.destroy()
      const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: text/plain\r\nconnection: close`
      inner.end(`${head}\r\n\r\n${why}\n`)
    }
    inner.on('error', () => inner.destroy())
    const place = placeOfAuthority(asked.url ?? '')
    if (!place) return close(400, 'CONNECT needs host:port')
    try {
      const outer = connect(route(place))
      outer.setTimeout(connectMs, () => outer.destroy(new Error('no connection within 10 s')))
      outer.once('error', error => close(statusOf(error), messageOf(error)))
      outer.once('connect', () => {
        isOpen = true
        inner.write('HTTP/1.1 200 Connection established\r\n\r\n')
        if (head.length) outer.write(head)
        for (const socket of [inner, outer]) socket.setTimeout(idleMs, () => socket.destroy())
        join(inner, outer)
      })
      inner.once('close', () => outer.destroySoon())
    } catch (error) {
      close(statusOf(error), messageOf(error))
    }
  })

  server.on('request', (asked: IncomingMessage, answer: ServerResponse) => {
    const close = (status: number, why: string): void => {
      if (answer.headersSent) return void answer.destroy()
      answer.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${why}\n`)
    }
    const target = targetOfUrl(asked.url ?? '')
    if (!target) return close(400, 'a proxy takes http:// addresses, and https:// by CONNECT')
    const { host, port, path: wanted } = target
    const named = host.includes(':') ? `[${host}]` : host
    try {
      const outer = request({
        ...route(target),
        method: asked.method,
        path: wanted,
        setHost: false,
        agent: false,
        timeout: idleMs,
        // Whom it is for was checked; what the request says of that was not.
        headers: { ...passedOn(asked.headers), host: port === 80 ? named : `${named}:${port}` },
      })
      outer.on('timeout', () => outer.destroy(new Error('nothing came for too long')))
      outer.on('error', error => close(statusOf(error), messageOf(error)))
      outer.on('upgrade', (_answer, socket) => socket.destroy())
      outer.on('response', response => {
        answer.writeHead(response.statusCode!, passedOn(response.headers))
        response.on('error', () => answer.destroy())
        response.pipe(answer)
      })
      answer.on('close', () => outer.destroy())
      asked.on('error', () => outer.destroy())
      asked.pipe(outer)
    } catch (error) {
      close(statusOf(error), messageOf(error))
    }
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  return listenOn(server, path)
}
