// The control connection: TLS 1.3 to a host that is known by its fingerprint alone. PROTOCOL.md, section 2.
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { aborted, StreamError } from './error.ts'
import { createMessageReader, encodeMessage } from './framing.ts'
import { type HostMessage, readHostMessage } from './host-message.ts'
import { fingerprintOf, type Identity } from './identity.ts'
import type { Exporter } from './media-keys.ts'

/** The host's usual port, TCP and UDP. */
export const defaultPort = 9777
/** Messages that may wait to be read before the connection is throttled. */
const maxWaiting = 64

export interface Control {
  /** Of the host's certificate, as shown in this handshake. */
  readonly fingerprint: string
  /** Address that the media is sent to: the one TCP has reached. */
  readonly remoteAddress: string
  readonly exporter: Exporter
  send(message: { readonly type: string; readonly [field: string]: unknown }): void
  /**
   * The next message. Rejects with the code of the host's `close`, with `lost` when the connection broke without one,
   * with `protocol-error`, `timeout` (after `timeoutMs`; none when left out) or `aborted`.
   */
  receive(options?: { readonly timeoutMs?: number; readonly signal?: AbortSignal }): Promise<HostMessage>
  /** Sends what is queued and ends the connection; `close` messages are sent before by the caller. */
  end(): void
}

export interface ControlOptions {
  readonly host: string
  readonly port: number
  readonly identity: Identity
  /** Time for TCP and TLS together, milliseconds. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const connectError = (host: string, port: number, error: NodeJS.ErrnoException): StreamError => {
  const at = `${host} port ${port}`
  const network = [
    'ECONNREFUSED',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ETIMEDOUT',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EADDRNOTAVAIL',
  ]
  if (error.code && network.includes(error.code)) {
    const why = `nothing answers at ${at} (${error.code}): check the address, and that the host runs`
    return new StreamError('unreachable', why, { cause: error })
  }
  const why = `what answers at ${at} does not speak svc/1 over TLS 1.3 (${sentence(error)})`
  return new StreamError('not-a-host', why, { cause: error })
}

/** Opens TLS; the caller decides whether it trusts `fingerprint` before it sends anything. */
export const openControl = async (options: ControlOptions): Promise<Control> => {
  const { host, port, identity, signal } = options
  if (signal?.aborted) throw aborted(signal)
  const socket = await new Promise<TLSSocket>((resolve, reject) => {
    const attempt = connectTls({
      host,
      port,
      key: identity.keyPem,
      cert: identity.certificatePem,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['svc/1'],
      // Both sides are self-signed; trust is the pinned fingerprint, which the caller compares.
      rejectUnauthorized: false,
    })
    const fail = (error: StreamError) => {
      settle()
      attempt.on('error', () => {})
      attempt.destroy()
      reject(error)
    }
    const onError = (error: NodeJS.ErrnoException) => fail(connectError(host, port, error))
    const onClose = () => fail(connectError(host, port, new Error('it hung up during the handshake')))
    const onAbort = () => fail(aborted(signal!))
    const timer = setTimeout(() => {
      const why = `no TLS handshake with ${host} port ${port} within ${options.timeoutMs} ms: check the address`
      fail(new StreamError('unreachable', why))
    }, options.timeoutMs)
    const settle = () => {
      clearTimeout(timer)
      attempt.off('error', onError).off('close', onClose)
      signal?.removeEventListener('abort', onAbort)
    }
    attempt.on('error', onError).on('close', onClose)
    signal?.addEventListener('abort', onAbort)
    attempt.once('secureConnect', () => {
      if (attempt.alpnProtocol !== 'svc/1')
        return onError(new Error('it does not offer the protocol "svc/1"'))
      settle()
      resolve(attempt)
    })
  })
  return controlOver(socket)
}

const controlOver = (socket: TLSSocket): Control => {
  const messages = createMessageReader()
  const queue: HostMessage[] = []
  let wake: (() => void) | undefined
  let failure: StreamError | undefined
  socket.setNoDelay(true)

  const fail = (error: StreamError) => {
    failure ??= error
    wake?.()
  }
  const refuse = (error: unknown) => {
    const violation =
      error instanceof StreamError
        ? error
        : new StreamError('protocol-error', sentence(error), { cause: error })
    fail(violation)
    socket.end(encodeMessage({ type: 'close', code: 'protocol-error', message: violation.message } as never))
    socket.destroySoon()
  }
  socket.on('data', chunk => {
    if (failure) return
    try {
      for (const raw of messages.push(chunk)) {
        const message = readHostMessage(raw)
        if (message) queue.push(message)
      }
    } catch (error) {
      refuse(error)
    }
    if (queue.length >= maxWaiting) socket.pause()
    wake?.()
  })
  const lost = (cause?: Error) =>
    fail(new StreamError('lost', 'the connection to the host broke without a close message', { cause }))
  socket.on('error', lost)
  socket.on('end', () => lost())
  socket.on('close', () => lost())

  const take = (): HostMessage | undefined => {
    const message = queue.shift()
    if (queue.length < maxWaiting / 2) socket.resume()
    if (message?.type !== 'close') return message
    const why = message.message || 'the host gave no reason'
    failure = new StreamError(message.code, `the host closed the session (${message.code}): ${why}`)
    return undefined
  }

  return {
    fingerprint: fingerprintOf(socket.getPeerCertificate().raw ?? Buffer.alloc(0)),
    remoteAddress: socket.remoteAddress ?? '',
    exporter: (length, label, context) => socket.exportKeyingMaterial(length, label, context),
    send: message => {
      if (!socket.destroyed && socket.writable) socket.write(encodeMessage(message))
    },
    receive: async ({ timeoutMs, signal } = {}) => {
      const deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs
      for (;;) {
        if (signal?.aborted) throw aborted(signal)
        const message = take()
        if (message) return message
        if (failure) throw failure
        const left = deadline === undefined ? undefined : deadline - performance.now()
        if (left !== undefined && left <= 0) {
          throw new StreamError('timeout', `the host has not answered for ${timeoutMs} ms`)
        }
        await new Promise<void>(resolve => {
          const done = () => {
            clearTimeout(timer)
            signal?.removeEventListener('abort', done)
            wake = undefined
            resolve()
          }
          const timer = left === undefined ? undefined : setTimeout(done, left)
          wake = done
          signal?.addEventListener('abort', done)
        })
      }
    },
    end: () => {
      failure ??= new StreamError('closed', 'this side has closed the connection')
      wake?.()
      socket.end()
      // A host that never answers the end must not keep the process alive.
      setTimeout(() => socket.destroy(), 1000).unref()
    },
  }
}
