// A connection to one of our X servers: requests in order, answers matched to them, nothing left waiting for ever.
import { connect } from 'node:net'
import {
  encodeRequest,
  encodeSetup,
  type Packet,
  type Setup,
  takePacket,
  takeSetup,
  words,
} from './packet.ts'

export interface XConnection extends Setup {
  /** Sends a request that has no answer; an error of the server is thrown by the next `sync`. */
  send(opcode: number, data: number, body: Uint8Array): void
  /** Sends a request and gives its answer; rejects with the server's error. */
  ask(opcode: number, data: number, body: Uint8Array): Promise<Buffer>
  /** Resolves when the server has done all that was sent before. */
  sync(): Promise<void>
  /** Major opcode of a protocol extension; rejects where the server lacks it. */
  extension(name: string): Promise<number>
  /** A resource id that is not in use. */
  newId(): number
  close(): void
}

interface Waiting {
  readonly sequence: number
  resolve(reply: Buffer): void
  reject(error: Error): void
}

const getInputFocus = 43
const queryExtension = 98

const explain = ({ code, major, minor }: Extract<Packet, { type: 'error' }>): Error =>
  new Error(`the X server answers request ${major}.${minor} with error ${code}`)

/** Connects through the socket; each wait for the server ends after `limitMs`. */
export async function connectX(path: string, cookie: Uint8Array, limitMs: number): Promise<XConnection> {
  const socket = connect({ path })
  const ready = Promise.withResolvers<Setup>()
  const waiting: Waiting[] = []
  let setup: Setup | undefined
  let pending: Buffer = Buffer.alloc(0)
  let sequence = 0
  let nextId = 0
  let refused: Error | undefined

  const fail = (error: Error): void => {
    socket.destroy()
    ready.reject(error)
    for (const each of waiting.splice(0)) each.reject(error)
  }

  const receive = (packet: Packet): void => {
    if (packet.type === 'event') return
    const isFirst = waiting[0]?.sequence === packet.sequence
    if (packet.type === 'reply') {
      if (!isFirst) throw new Error('the X server answers a question that nobody asked')
      waiting.shift()!.resolve(packet.bytes)
    } else if (isFirst) waiting.shift()!.reject(explain(packet))
    else refused ??= explain(packet)
  }

  socket.on('connect', () => socket.write(encodeSetup(cookie)))
  socket.on('data', data => {
    pending = pending.length ? Buffer.concat([pending, data]) : data
    try {
      if (!setup) {
        const taken = takeSetup(pending)
        if (!taken) return
        setup = taken.setup
        pending = taken.rest
        ready.resolve(setup)
      }
      for (let taken = takePacket(pending); taken; taken = takePacket(pending)) {
        pending = taken.rest
        receive(taken.packet)
      }
    } catch (error) {
      fail(error as Error)
    }
  })
  socket.on('error', error => fail(new Error(`the X server is out of reach: ${error.message}`)))
  socket.on('close', () => fail(new Error('the X server has closed the connection')))

  const limited = async <T>(wait: Promise<T>, what: string): Promise<T> => {
    const timer = setTimeout(
      () => fail(new Error(`the X server does not answer ${what} within ${limitMs} ms`)),
      limitMs,
    )
    return wait.finally(() => clearTimeout(timer))
  }

  const send = (opcode: number, data: number, body: Uint8Array): void => {
    sequence = (sequence + 1) & 0xffff
    socket.write(encodeRequest(opcode, data, body))
  }
  const ask = (opcode: number, data: number, body: Uint8Array): Promise<Buffer> => {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    if (socket.destroyed) return Promise.reject(new Error('the X server has closed the connection'))
    send(opcode, data, body)
    waiting.push({ sequence, resolve, reject })
    return limited(promise, `request ${opcode}.${data}`)
  }

  const facts = await limited(ready.promise, 'the connection')
  return {
    ...facts,
    send,
    ask,
    async sync() {
      await ask(getInputFocus, 0, new Uint8Array())
      const error = refused
      refused = undefined
      if (error) throw error
    },
    async extension(name) {
      const bytes = Buffer.from(name, 'latin1')
      const answer = await ask(queryExtension, 0, Buffer.concat([words(bytes.length & 0xffff), bytes]))
      if (answer[8] !== 1) throw new Error(`the X server lacks the extension ${name}`)
      return answer[9]!
    },
    newId: () => facts.resourceBase | (++nextId & facts.resourceMask),
    close: () => void socket.destroy(),
  }
}
