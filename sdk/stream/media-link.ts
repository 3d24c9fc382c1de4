// The UDP side of one session: opens what comes, seals what goes, keeps the path open. PROTOCOL.md, 4 and 7.
import { createSocket, type Socket } from 'node:dgram'
import { isIPv6 } from 'node:net'
import { type ClockSync, createClockSync, nowUs } from './clock.ts'
import { createOpener, createSealer, datagramOverhead, parseHeader } from './datagram.ts'
import { StreamError } from './error.ts'
import { type Direction, directions, type Exporter, keyContext, mediaKey, streams } from './media-keys.ts'
import { encodePath, type PathMessage, parsePath } from './path-message.ts'
import { createReordering, type Reordering } from './reordering.ts'

/** Ping period before the first authentic datagram, milliseconds. */
const knockMs = 20
/** Ping period from then on, milliseconds. */
const pingMs = 500

export interface LinkCounts {
  /** UDP payload bytes of authentic datagrams. */
  bytes: number
  /** Authentic video datagrams. */
  video: number
  audio: number
  /** Authentic datagrams that came after one with a higher counter. */
  reordered: number
  duplicates: number
  /** Datagrams that were not of this session, too old, or not authentic. */
  rejected: number
}

export interface MediaLink {
  sendPath(...messages: readonly PathMessage[]): void
  sendInput(payload: Buffer): void
  /** Largest input payload, bytes. */
  readonly maxPayloadBytes: number
  readonly counts: Readonly<LinkCounts>
  /** Video datagrams sent by the host and not seen here, from the gaps in their counters. */
  readonly lostVideo: number
  readonly clock: ClockSync
  /** Of video datagrams. */
  readonly reordering: Pick<Reordering, 'lateUs' | 'lost'>
  /** Of datagrams of sound. */
  readonly audioReordering: Pick<Reordering, 'lost'>
  /** When the last authentic datagram arrived, microseconds; the link's opening before the first. */
  readonly lastArrivalUs: number
  /** Says `bye` when asked to, and closes the socket once it has left. */
  close(isBye: boolean): Promise<void>
}

export interface LinkOptions {
  readonly remoteAddress: string
  readonly port: number
  /** 16 hex characters. */
  readonly session: string
  readonly epoch: number
  readonly exporter: Exporter
  readonly maxDatagramBytes: number
  onVideo(payload: Buffer, arrivalUs: number): void
  onAudio(payload: Buffer, arrivalUs: number): void
  /** Everything but pongs and probes, which the link answers itself. */
  onPath(message: PathMessage): void
}

const bind = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(0, () => {
      socket.off('error', reject)
      resolve()
    })
  })

export const openMediaLink = async (options: LinkOptions): Promise<MediaLink> => {
  const { port, remoteAddress } = options
  const session = Buffer.from(options.session, 'hex')
  const of = (direction: Direction, stream: (typeof streams)[keyof typeof streams]) => ({
    session,
    epoch: options.epoch,
    stream,
    key: mediaKey(options.exporter, keyContext(session, options.epoch, direction, stream)),
  })
  const openers = new Map(
    ([streams.video, streams.audio, streams.path] as const).map(stream => [
      stream as number,
      createOpener(of(directions.toClient, stream)),
    ]),
  )
  const video = openers.get(streams.video)!
  const sealPath = createSealer(of(directions.toHost, streams.path))
  const sealInput = createSealer(of(directions.toHost, streams.input))
  const counts: LinkCounts = { bytes: 0, video: 0, audio: 0, reordered: 0, duplicates: 0, rejected: 0 }
  const clock = createClockSync()
  const reordering = createReordering()
  const audioReordering = createReordering()
  let lastArrivalUs = nowUs()
  let hasArrived = false
  let isClosed = false
  let pingId = 0
  let pingTimer: NodeJS.Timeout

  const socket = createSocket({
    type: isIPv6(remoteAddress) ? 'udp6' : 'udp4',
    recvBufferSize: 4 * 1024 * 1024,
  })
  await bind(socket).catch(error => {
    throw new StreamError('unreachable', `cannot open a UDP socket: ${error.message}`, { cause: error })
  })
  // A send that fails (no route, a full buffer) is a lost datagram, and those are expected.
  socket.on('error', () => {})
  const send = (datagram: Buffer) => {
    if (!isClosed) socket.send(datagram, port, remoteAddress, () => {})
  }
  const sendPath = (...messages: readonly PathMessage[]) => send(sealPath(encodePath(...messages)))

  const ping = () => {
    pingId = (pingId + 1) >>> 0
    sendPath({ type: 'ping', id: pingId, clientUs: BigInt(nowUs()) })
    pingTimer = setTimeout(ping, hasArrived ? pingMs : knockMs)
  }

  const onPath = (payload: Buffer, length: number, arrivalUs: number) => {
    for (const message of parsePath(payload)) {
      if (message.type === 'pong') {
        const sentUs = Number(message.clientUs)
        // A pong to what was not sent would turn the clock; times from the future cannot be ours.
        if (sentUs <= arrivalUs) {
          clock.sample(sentUs, Number(message.hostReceiveUs), Number(message.hostSendUs), arrivalUs)
        }
      } else if (message.type === 'probe') sendPath({ type: 'probe-ack', id: message.id, length })
      else options.onPath(message)
    }
  }

  socket.on('message', datagram => {
    if (isClosed) return
    const arrivalUs = nowUs()
    const stream = parseHeader(datagram)?.stream
    const opener = stream === undefined ? undefined : openers.get(stream)
    const opened = opener?.open(datagram) ?? 'foreign'
    if (typeof opened === 'string') {
      if (opened === 'repeated') counts.duplicates++
      else counts.rejected++
      return
    }
    counts.bytes += datagram.length
    if (!opened.isNewest) counts.reordered++
    lastArrivalUs = arrivalUs
    if (!hasArrived) {
      hasArrived = true
      clearTimeout(pingTimer)
      pingTimer = setTimeout(ping, pingMs)
    }
    if (stream === streams.video) {
      counts.video++
      reordering.sample(opened.counter, arrivalUs, opened.isNewest)
      options.onVideo(opened.payload, arrivalUs)
    } else if (stream === streams.audio) {
      counts.audio++
      audioReordering.sample(opened.counter, arrivalUs, opened.isNewest)
      options.onAudio(opened.payload, arrivalUs)
    } else onPath(opened.payload, datagram.length, arrivalUs)
  })
  ping()

  return {
    sendPath,
    sendInput: payload => send(sealInput(payload)),
    maxPayloadBytes: options.maxDatagramBytes - datagramOverhead,
    counts,
    clock,
    reordering,
    audioReordering,
    get lostVideo() {
      return Math.max(0, Number(video.newest) + 1 - counts.video)
    },
    get lastArrivalUs() {
      return lastArrivalUs
    },
    close: async isBye => {
      if (isClosed) return
      clearTimeout(pingTimer)
      const bye = isBye ? sealPath(encodePath({ type: 'bye' })) : undefined
      isClosed = true
      if (bye) await new Promise<void>(resolve => socket.send(bye, port, remoteAddress, () => resolve()))
      await new Promise<void>(resolve => socket.close(() => resolve()))
    },
  }
}
