// HTTPS connections to exactly one certificate: no byte of a request leaves before it has been compared.
import { X509Certificate } from 'node:crypto'
import { Agent, type RequestOptions } from 'node:https'
import type { Duplex } from 'node:stream'
import { connect, type TLSSocket } from 'node:tls'
import { ApiError } from './errors.ts'

/** The host's certificate, or the SHA-256 of its DER in hex. */
export type Pin = { readonly certificatePem: string } | { readonly fingerprint: string }

const plain = (fingerprint: string): string => fingerprint.replaceAll(':', '').toLowerCase()

export const fingerprintOf = (pin: Pin): string =>
  'fingerprint' in pin
    ? plain(pin.fingerprint)
    : plain(new X509Certificate(pin.certificatePem).fingerprint256)

/** Opens a connection and hands it out only when the peer has shown the pinned certificate. */
function connectPinned(host: string, port: number, expected: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    // The name is not checked and no authority is asked: the certificate itself is the identity.
    const socket = connect({
      host,
      port,
      rejectUnauthorized: false,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
    })
    socket.setTimeout(10_000, () => socket.destroy(new Error('no TLS handshake within 10 s')))
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection closed during the TLS handshake')))
    socket.once('secureConnect', () => {
      const shown = socket.getPeerX509Certificate()
      if (!shown || plain(shown.fingerprint256) !== expected) {
        socket.destroy()
        const text = `${host}:${port} shows another certificate than the pinned one; nothing was sent`
        return reject(new ApiError('pin-mismatch', text))
      }
      socket.setTimeout(0)
      socket.removeAllListeners('timeout')
      resolve(socket)
    })
  })
}

/** An agent that keeps connections to the pinned host alive. */
export class PinnedAgent extends Agent {
  readonly #expected: string
  constructor(pin: Pin) {
    super({ keepAlive: true })
    this.#expected = fingerprintOf(pin)
  }

  override createConnection(
    options: RequestOptions,
    done?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const host = (options.host ?? 'localhost').replace(/^\[(.*)\]$/, '$1')
    connectPinned(host, Number(options.port), this.#expected).then(
      socket => done?.(null, socket),
      error => done?.(error, undefined as never),
    )
  }
}
