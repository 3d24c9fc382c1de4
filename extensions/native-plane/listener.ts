// The TLS listener of the control connections, and the limits that keep strangers cheap.
import { constants, X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import type { HostIdentity } from 'svc-host/sdk'
import { type Channel, openChannel } from './channel.ts'

/** From accepting a connection to the end of its TLS handshake. */
const handshakeLimitMs = 10_000
/** Connections that no session has been admitted on: in all, and from one address. */
const mostStrangers = 64
const mostPerAddress = 12
/** For the last messages when the listener closes. */
const drainMs = 500

export interface Listener {
  readonly port: number
  /** Stops accepting, leaves last messages a moment to go out, and drops what is still open. */
  close(): Promise<void>
}

export interface Connection {
  readonly channel: Channel
  /** The client has been admitted: the connection no longer counts as a stranger's. */
  admitted(): void
}

/** IPv6 hosts own whole /64 networks: those count as one address. */
export const addressKey = (address: string | undefined): string => {
  const plain = (address ?? '').replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('::')
  const front = head === '' ? [] : head.split(':')
  const back = tail ? tail.split(':') : []
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  return [...front, ...Array<string>(Math.max(0, zeros)).fill('0'), ...back]
    .slice(0, 4)
    .map(group => group.padStart(4, '0').toLowerCase())
    .join(':')
}

const fingerprintOf = (socket: TLSSocket): string | undefined => {
  const raw = socket.getPeerCertificate(true).raw as Buffer | undefined
  return raw ? new X509Certificate(raw).fingerprint256.replaceAll(':', '').toLowerCase() : undefined
}

const listen = (server: Server, port: number, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, backlog: 64 }, () => {
      server.off('error', reject)
      resolve((server.address() as { port: number }).port)
    })
  })

/** Listens dual stack, or on IPv4 where there is no IPv6. Rejects with the system's error. */
export const openListener = async (
  identity: HostIdentity,
  port: number,
  serve: (connection: Connection) => void,
): Promise<Listener> => {
  const strangers = new Map<Socket, string>()
  const all = new Set<Socket>()
  const server = createServer({
    cert: identity.certificatePem,
    key: identity.privateKeyPem,
    minVersion: 'TLSv1.3',
    ALPNProtocols: ['svc/1'],
    requestCert: true,
    // Any certificate completes the handshake; which one it is decides later what its owner may do.
    rejectUnauthorized: false,
    handshakeTimeout: handshakeLimitMs,
    // No tickets; what is left is sessions kept by this host, and it keeps none: each key exchange is a full one.
    secureOptions: constants.SSL_OP_NO_TICKET,
  })
  server.on('resumeSession', (_id, done) => done(null, null as unknown as Buffer))

  server.on('connection', (raw: Socket) => {
    const key = addressKey(raw.remoteAddress)
    const near = [...strangers.values()].filter(other => other === key).length
    if (strangers.size >= mostStrangers || near >= mostPerAddress) {
      raw.destroy()
      return
    }
    strangers.set(raw, key)
    all.add(raw)
    raw.once('close', () => {
      strangers.delete(raw)
      all.delete(raw)
    })
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  server.on('secureConnection', socket => {
    const raw = [...strangers.keys()].find(
      other => other.remotePort === socket.remotePort && other.remoteAddress === socket.remoteAddress,
    )
    const fingerprint = fingerprintOf(socket)
    if (socket.alpnProtocol !== 'svc/1') {
      socket.destroy()
      return
    }
    const channel = openChannel(socket, fingerprint ?? '')
    if (fingerprint === undefined) {
      channel.close('protocol-error', 'this host knows its clients by their certificates: show one')
      return
    }
    serve({ channel, admitted: () => raw && strangers.delete(raw) })
  })

  const bound = await listen(server, port, '::').catch(error => {
    if (error.code !== 'EAFNOSUPPORT' && error.code !== 'EADDRNOTAVAIL') throw error
    return listen(server, port, '0.0.0.0')
  })
  // After the start an error of the listener (too many open files) concerns one connection, not the host.
  server.on('error', () => {})

  return {
    port: bound,
    close: () =>
      new Promise(resolve => {
        const drop = setTimeout(() => {
          for (const socket of all) socket.destroy()
        }, drainMs)
        server.close(() => {
          clearTimeout(drop)
          resolve()
        })
        for (const raw of strangers.keys()) raw.destroy()
      }),
  }
}
