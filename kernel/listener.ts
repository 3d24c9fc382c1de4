// The sockets of the management API: addresses, TLS, and the limits that keep strangers from tying them up.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { type AddressInfo, isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HostIdentity } from 'svc-host/sdk'
import { UsageError } from './errors.ts'

/** Where to listen; port 0 takes a free one. */
export interface BindAddress {
  readonly host: string
  readonly port: number
}

export const DEFAULT_BIND = '[::]:47990'

/** Reads `IP:PORT`, with IPv6 in brackets; throws a sentence. */
export function parseBind(text: string): BindAddress {
  const [, v6, v4, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if ((v6 && isIP(v6) === 6) || (v4 && isIP(v4) === 4)) if (port <= 65535) return { host: (v6 ?? v4)!, port }
  throw new UsageError(
    `${JSON.stringify(text)} is no address to listen on; write IP:PORT, such as 127.0.0.1:47990 or [::]:47990`,
  )
}

export interface Listener {
  readonly port: number
  /** Stops accepting; resolves when the last connection has gone. */
  close(): Promise<void>
  /** Cuts every connection that is left. */
  destroy(): void
}

interface Handlers {
  request(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

/** Connections from other machines at once, in all and from one address; this machine is never shut out. */
const MAX_REMOTE = 512
const MAX_REMOTE_PER_ADDRESS = 64

/** IPv4 addresses mapped into IPv6 count as IPv4. */
export const isLoopback = (address: string): boolean => /^(::1$|(::ffff:)?127\.)/i.test(address)

/** Opens the address asked for and, unless that covers it, 127.0.0.1 as well. */
export async function openListener(
  bind: BindAddress,
  identity: HostIdentity,
  handlers: Handlers,
): Promise<Listener> {
  const sockets = new Map<Socket, string>()
  const admitSocket = (socket: Socket): void => {
    const address = socket.remoteAddress ?? ''
    if (!isLoopback(address)) {
      const remote = [...sockets.values()].filter(other => !isLoopback(other))
      const same = remote.filter(other => other === address)
      if (remote.length >= MAX_REMOTE || same.length >= MAX_REMOTE_PER_ADDRESS) return void socket.destroy()
    }
    sockets.set(socket, address)
    socket.once('close', () => sockets.delete(socket))
  }
  const serve = async (at: BindAddress): Promise<Server> => {
    const server = createServer({
      cert: identity.certificatePem,
      key: identity.privateKeyPem,
      minVersion: 'TLSv1.2',
      // Asked for, never required: the lanes judge its fingerprint, the handshake does not.
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: 10_000,
      headersTimeout: 10_000,
      requestTimeout: 60_000,
      keepAliveTimeout: 15_000,
      connectionsCheckingInterval: 2_000,
      maxHeaderSize: 16_384,
    })
    // Heartbeats keep honest streams under this; it ends readers that stopped reading.
    server.setTimeout(120_000)
    server.on('connection', admitSocket)
    // Each request that a client sends ahead waits for the close of its connection: any number is in order.
    server.on('secureConnection', socket => secured.add(socket.setMaxListeners(0).on('error', () => {})))
    server.on('request', handlers.request)
    server.on('upgrade', (request, socket, head) => {
      ;(socket as Socket).setTimeout(0)
      handlers.upgrade(request, socket, head)
    })
    server.on('clientError', refuseClient)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: at.host, port: at.port }, resolve)
    })
    return server
  }

  const servers: Server[] = []
  try {
    servers.push(
      await serve(bind).catch(error => {
        const noIpv6 = ['EAFNOSUPPORT', 'EADDRNOTAVAIL'].includes(error.code) && bind.host === '::'
        if (noIpv6) return serve({ host: '0.0.0.0', port: bind.port })
        throw error
      }),
    )
    const { port } = servers[0]!.address() as AddressInfo
    const covered = ['::', '0.0.0.0'].includes(bind.host) || isLoopback(bind.host)
    if (!covered) servers.push(await serve({ host: '127.0.0.1', port }))
    return {
      port,
      close: async () => {
        await Promise.all(servers.map(server => new Promise(done => server.close(done))))
      },
      destroy: () => {
        for (const socket of sockets.keys()) socket.destroy()
      },
    }
  } catch (error) {
    for (const server of servers) server.close()
    throw explain(error as NodeJS.ErrnoException & { address?: string; port?: number }, bind)
  }
}

/** Connections whose handshake is done; before that there is no way to answer. */
const secured = new WeakSet<Duplex>()

/** Answers bytes that are no HTTP request, when a handshake has made that possible and someone is still there. */
function refuseClient(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET' || !secured.has(socket)) return void socket.destroy()
  const [status, text] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'the request headers are too large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'the request took too long to arrive']
        : ['400 Bad Request', 'this is no HTTP request']
  const body = JSON.stringify({ error: text })
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n` +
      `Cache-Control: no-store\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}

function explain(
  error: NodeJS.ErrnoException & { address?: string; port?: number },
  bind: BindAddress,
): Error {
  const host = error.address ?? bind.host
  const where = `${host.includes(':') ? `[${host}]` : host}:${error.port ?? bind.port}`
  const advice: Record<string, string> = {
    EADDRINUSE:
      'another program listens there, perhaps another svc-host; stop it or choose another with --mgmt-bind IP:PORT',
    EACCES: 'this user may not use that port; choose one above 1023 with --mgmt-bind IP:PORT',
    EADDRNOTAVAIL: 'this machine does not have that address; choose one it has with --mgmt-bind IP:PORT',
  }
  return new Error(`cannot listen on ${where}: ${advice[error.code ?? ''] ?? error.message}`, {
    cause: error,
  })
}
