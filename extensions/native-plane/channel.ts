// One control connection as messages: reading with limits and back-pressure, writing, and closing so that the last
// message arrives.
import type { TLSSocket } from 'node:tls'
import { createFrameReader, frame } from './frames.ts'
import { type Message, ProtocolError, readMessage } from './messages.ts'

/** Messages read ahead before the socket is paused. */
const readAhead = 16
/** Unsent bytes after which a client that does not read is dropped. */
const mostUnsent = 1024 * 1024
/** How long a closed connection may take to deliver its last message. */
const lingerMs = 1000

export type RefuseReason =
  | (
      | 'version'
      | 'not-paired'
      | 'no-window'
      | 'other-device'
      | 'outside-lan'
      | 'pace'
      | 'wrong-pin'
      | 'bad-share'
    )
  | ('denied' | 'no-answer' | 'expired' | 'busy' | 'no-codec' | 'no-display' | 'mode' | 'host-error')

export type CloseCode =
  | ('stopped' | 'game-exited' | 'ended' | 'host-error' | 'stopping' | 'unpaired' | 'replaced' | 'idle')
  | 'protocol-error'

/** What `next` resolves to when there is no message: the other side has gone, or was silent for as long as was asked. */
export type NoMessage = 'gone' | 'silent'

export interface Channel {
  /** SHA-256 of the client's certificate, 64 lowercase hex characters. */
  readonly fingerprint: string
  readonly address: string | undefined
  readonly exporter: TLSSocket
  /** Resolves when the connection is of no use any more. */
  readonly gone: Promise<void>
  /**
   * The next message of a known type. Rejects with `ProtocolError`. Waits until `limitMs` have passed or `stop` is
   * aborted, without either for ever; one caller at a time.
   */
  next(limitMs?: number, stop?: AbortSignal): Promise<Message | NoMessage>
  send(message: { readonly type: string; readonly [field: string]: unknown }): void
  refuse(reason: RefuseReason, message: string, fields?: object): void
  /** Sends `close` and closes; idempotent. */
  close(code: CloseCode, message: string): void
  /** Closes without a word; idempotent. */
  end(): void
}

export const openChannel = (socket: TLSSocket, fingerprint: string): Channel => {
  const reader = createFrameReader()
  const waiting: Message[] = []
  let failure: ProtocolError | undefined
  let isClosed = false
  let wake: (() => void) | undefined

  const wakeUp = (): void => {
    wake?.()
    wake = undefined
  }
  const end = (): void => {
    if (isClosed) return
    isClosed = true
    waiting.length = 0
    // What still comes in is read and thrown away: unread bytes would make the kernel reset the connection, and the
    // last message with it.
    socket.resume()
    socket.end()
    setTimeout(() => socket.destroy(), lingerMs).unref()
    wakeUp()
  }
  const gone = new Promise<void>(resolve => {
    socket.once('close', () => {
      isClosed = true
      wakeUp()
      resolve()
    })
  })

  socket.setNoDelay(true)
  socket.setKeepAlive(true, 15_000)
  // An error is followed by `close`, which is what counts.
  socket.on('error', () => {})
  socket.on('end', end)
  socket.on('data', (chunk: Buffer) => {
    if (isClosed || failure) return
    try {
      for (const body of reader.push(chunk)) {
        const message = readMessage(body)
        if (message) waiting.push(message)
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      failure = error
    }
    if (waiting.length >= readAhead) socket.pause()
    wakeUp()
  })

  const write = (message: object): void => {
    if (isClosed || socket.destroyed) return
    socket.write(frame(message))
    if (socket.writableLength > mostUnsent) socket.destroy()
  }

  return {
    fingerprint,
    address: socket.remoteAddress,
    exporter: socket,
    gone,

    next: async (limitMs, stop) => {
      const deadline = limitMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + limitMs
      for (;;) {
        const message = waiting.shift()
        if (message) {
          if (waiting.length === 0 && socket.isPaused()) socket.resume()
          return message
        }
        if (failure) throw failure
        if (isClosed) return 'gone'
        const leftMs = deadline - performance.now()
        if (leftMs <= 0 || stop?.aborted) return 'silent'
        await new Promise<void>(resolve => {
          const timer = leftMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(resolve, leftMs)
          wake = () => {
            clearTimeout(timer)
            stop?.removeEventListener('abort', wakeUp)
            resolve()
          }
          stop?.addEventListener('abort', wakeUp)
        })
      }
    },

    send: write,
    refuse: (reason, message, fields = {}) => {
      write({ type: 'refuse', reason, message, ...fields })
      end()
    },
    close: (code, message) => {
      write({ type: 'close', code, message })
      end()
    },
    end,
  }
}
