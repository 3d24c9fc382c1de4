// A UDP relay between a client and a host: a path with delay, jitter, reordering, duplicates, loss and a largest size, all
// by a seed.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'

/** What happens to datagrams of one direction; each datagram meets its own dice. */
export interface Path {
  /** One way, milliseconds. */
  readonly delayMs?: number
  /** Added to or taken from the delay, evenly; datagrams overtake each other by it. */
  readonly jitterMs?: number
  /** Share of datagrams, 0 to 1, that are lost. */
  readonly loss?: number
  /** With it losses come in runs of this mean length. */
  readonly burst?: number
  /** Share that is held back by `reorderMs` more. */
  readonly reorder?: number
  readonly reorderMs?: number
  /** Share that comes twice. */
  readonly duplicate?: number
  /** Longer datagrams vanish. */
  readonly maxBytes?: number
  /** Loses all video, and nothing else. */
  readonly losesVideo?: boolean
}

export interface Relay {
  readonly port: number
  /** Changes both directions, or one, from now on. */
  change(path: Path, direction?: 'toClient' | 'toHost'): void
  readonly counts: { readonly passed: number; readonly lost: number; readonly tooLong: number }
  close(): Promise<void>
}

/** Numbers from 0 to 1, the same in each run (mulberry32). */
export const seeded = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Due {
  readonly atMs: number
  readonly send: () => void
}

/** Relays datagrams of one client on 127.0.0.1 to `hostPort` there and back. */
export async function openRelay(hostPort: number, path: Path, seed = 1): Promise<Relay> {
  const front = createSocket({ type: 'udp4', recvBufferSize: 4 << 20, sendBufferSize: 4 << 20 })
  const back = createSocket({ type: 'udp4', recvBufferSize: 4 << 20, sendBufferSize: 4 << 20 })
  for (const socket of [front, back]) socket.bind(0, '127.0.0.1')
  await Promise.all([once(front, 'listening'), once(back, 'listening')])
  const random = seeded(seed)
  const paths = { toClient: path, toHost: path }
  const inRun = { toClient: false, toHost: false }
  const counts = { passed: 0, lost: 0, tooLong: 0 }
  let client = 0
  let isClosed = false
  let waiting: Due[] = []
  let timer: NodeJS.Timeout | undefined

  const flush = () => {
    const now = performance.now()
    const due = waiting.filter(({ atMs }) => atMs <= now).sort((a, b) => a.atMs - b.atMs)
    waiting = waiting.filter(({ atMs }) => atMs > now)
    for (const { send } of due) send()
    timer = waiting.length === 0 ? undefined : setTimeout(flush, 1)
  }
  const later = (ms: number, send: () => void) => {
    if (ms <= 0) return send()
    waiting.push({ atMs: performance.now() + ms, send })
    timer ??= setTimeout(flush, 1)
  }
  /** Gilbert's model where losses come in runs, else each datagram for itself. */
  const isLost = (direction: 'toClient' | 'toHost'): boolean => {
    const { loss = 0, burst = 0 } = paths[direction]
    if (burst <= 1) return random() < loss
    const begins = loss / (burst * (1 - loss))
    inRun[direction] = inRun[direction] ? random() >= 1 / burst : random() < begins
    return inRun[direction]
  }
  const pass = (direction: 'toClient' | 'toHost', datagram: Buffer, from: Socket, port: number) => {
    const {
      delayMs = 0,
      jitterMs = 0,
      reorder = 0,
      reorderMs = 0,
      duplicate = 0,
      maxBytes,
      losesVideo = false,
    } = paths[direction]
    if (maxBytes !== undefined && datagram.length > maxBytes) counts.tooLong++
    else if (isLost(direction) || (losesVideo && (datagram[0]! & 15) === 1)) counts.lost++
    else {
      for (let copies = random() < duplicate ? 2 : 1; copies > 0; copies--) {
        const held = delayMs + (random() * 2 - 1) * jitterMs + (random() < reorder ? reorderMs : 0)
        counts.passed++
        later(held, () => {
          if (!isClosed) from.send(datagram, port, '127.0.0.1')
        })
      }
    }
  }
  front.on('message', (datagram, { port }) => {
    client = port
    pass('toHost', datagram, back, hostPort)
  })
  back.on('message', datagram => {
    if (client !== 0) pass('toClient', datagram, front, client)
  })

  return {
    port: front.address().port,
    change: (next, direction) => {
      if (direction !== 'toHost') paths.toClient = next
      if (direction !== 'toClient') paths.toHost = next
    },
    counts,
    close: async () => {
      isClosed = true
      clearTimeout(timer)
      await Promise.all(
        [front, back].map(socket => new Promise<void>(resolve => socket.close(() => resolve()))),
      )
    },
  }
}
