// A client of the media plane for the engine's tests: datagrams by node:crypto, whole frames without parity.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { SessionKeys } from './index.ts'

const names = ['videoOut', 'audioOut', 'pathOut', 'inputIn', 'pathIn'] as const

/** Keys of one session; each call of `handedOver` gives copies, as the engine wipes what it is given. */
export function freshKeys() {
  const own = Object.fromEntries(names.map(name => [name, randomBytes(28)])) as Record<
    keyof SessionKeys,
    Buffer
  >
  let last: Buffer[] = []
  return {
    ...own,
    handedOver(): SessionKeys {
      const copy = Object.fromEntries(names.map(name => [name, Buffer.from(own[name])]))
      last = Object.values(copy)
      return copy as unknown as SessionKeys
    },
    lastHandedOver: () => last,
  }
}

function nonce(key: Buffer, header: Buffer): Buffer {
  const iv = Buffer.from(key.subarray(16))
  for (let i = 0; i < 8; i++) iv[4 + i]! ^= header[12 + i]!
  return iv
}

interface Block {
  readonly k: number
  readonly bytes: number
  readonly shards: Map<number, Buffer>
}
interface Frame {
  readonly blocks: Map<number, Block>
  readonly flags: number
  readonly generation: number
  last: number
}

/** Opens a socket of its own; unless `silent`, it pings as a client does, answers probes and so receives. */
export async function mediaClient(
  port: number,
  id: string,
  keys: ReturnType<typeof freshKeys>,
  { silent = false, counter = 0n }: { silent?: boolean; counter?: bigint } = {},
) {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 << 20 })
  const session = Buffer.from(id, 'hex')
  const frames = new Map<number, Frame>()
  const counters = new Map<number, bigint>([[4, counter]])
  let received = 0
  let rejected = 0
  let acknowledged = 0
  let bye = false
  let nextEvent = 0

  function seal(stream: number, payload: Buffer): Buffer {
    const key = stream === 4 ? keys.pathIn : keys.inputIn
    const header = Buffer.alloc(20)
    header[0] = 0x10 | stream
    header[1] = 1
    session.copy(header, 4)
    const count = counters.get(stream) ?? 0n
    counters.set(stream, count + 1n)
    header.writeBigUInt64BE(count, 12)
    const cipher = createCipheriv('aes-128-gcm', key.subarray(0, 16), nonce(key, header)).setAAD(header)
    return Buffer.concat([header, cipher.update(payload), cipher.final(), cipher.getAuthTag()])
  }
  const raw = (bytes: Buffer) => socket.send(bytes, port, '127.0.0.1')
  const payload = (stream: number, bytes: Buffer) => raw(seal(stream, bytes))
  const message = (type: number, body: Buffer) =>
    Buffer.concat([Buffer.from([type, body.length >> 8, body.length & 255]), body])
  const path = (type: number, body: Buffer) => payload(4, message(type, body))

  socket.on('message', datagram => {
    received++
    try {
      const key = (datagram[0]! & 15) === 1 ? keys.videoOut : keys.pathOut
      const opened = createDecipheriv('aes-128-gcm', key.subarray(0, 16), nonce(key, datagram))
        .setAAD(datagram.subarray(0, 20))
        .setAuthTag(datagram.subarray(-16))
      const plain = Buffer.concat([opened.update(datagram.subarray(20, -16)), opened.final()])
      if ((datagram[0]! & 15) === 1) onVideo(plain)
      else onPath(plain)
    } catch {
      rejected++
    }
  })

  function onPath(plain: Buffer): void {
    for (let at = 0; at + 3 <= plain.length; at += 3 + plain.readUInt16BE(at + 1)) {
      const type = plain[at]
      if (type === 5) acknowledged = plain.readUInt32BE(at + 3)
      if (type === 6 && !silent) path(7, Buffer.concat([plain.subarray(at + 3, at + 7), Buffer.from([0, 0])]))
      if (type === 8) bye = true
    }
  }

  function onVideo(plain: Buffer): void {
    const number = plain.readUInt32BE(0)
    const [block, flags, index, k] = plain.subarray(4, 8) as unknown as [number, number, number, number]
    let frame = frames.get(number)
    if (!frame) {
      frame = { blocks: new Map(), flags, generation: plain[9]!, last: -1 }
      frames.set(number, frame)
    }
    if (flags & 2) frame.last = block
    let into = frame.blocks.get(block)
    if (!into) {
      into = { k, bytes: plain.readUInt32BE(12), shards: new Map() }
      frame.blocks.set(block, into)
    }
    if (index < k) into.shards.set(index, plain.subarray(24))
  }

  const isWhole = (frame: Frame) =>
    frame.blocks.size === frame.last + 1 &&
    [...frame.blocks.values()].every(block => block.shards.size === block.k)
  const wholeFrames = (generation: number) =>
    [...frames]
      .filter(([, frame]) => frame.generation === generation && isWhole(frame))
      .sort(([a], [b]) => a - b)
      .map(([, frame]) => frame)

  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const ping = () => path(1, Buffer.alloc(12))
  if (!silent) ping()
  const timer = silent ? undefined : setInterval(ping, 100)
  let closed = false

  return {
    raw,
    payload,
    path,
    sealPath: (type: number, body: Buffer) => seal(4, message(type, body)),
    /** Sends events, once: on loopback nothing is lost that matters here. */
    input(...events: [type: number, body: Buffer][]): void {
      const head = Buffer.alloc(5)
      head.writeUInt32BE(nextEvent)
      head[4] = events.length
      nextEvent += events.length
      const bodies = events.flatMap(([type, body]) => [Buffer.from([type, body.length]), body])
      payload(3, Buffer.concat([head, ...bodies]))
    },
    received: () => received,
    rejected: () => rejected,
    acknowledged: () => acknowledged,
    heardBye: () => bye,
    whole: (generation = 1) => wholeFrames(generation).length,
    keyframes: () => [...frames.values()].filter(frame => frame.flags & 1).length,
    generation: () => [...frames].sort(([a], [b]) => b - a)[0]?.[1].generation,
    annexB(generation = 1): Buffer {
      return Buffer.concat(
        wholeFrames(generation).flatMap(frame =>
          [...frame.blocks]
            .sort(([a], [b]) => a - b)
            .map(([, { shards, bytes }]) => {
              const ordered = [...shards].sort(([a], [b]) => a - b).map(([, shard]) => shard)
              return Buffer.concat(ordered).subarray(0, bytes)
            }),
        ),
      )
    },
    close(): void {
      if (closed) return
      closed = true
      clearInterval(timer)
      socket.close()
    },
  }
}
