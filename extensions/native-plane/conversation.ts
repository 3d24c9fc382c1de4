// What is said on one control connection, step by step: hello, pairing, start, and then the stream's requests.
import { setTimeout as sleep } from 'node:timers/promises'
import type { PairingQueue, PairingWindow } from 'svc-host/api/pairing'
import type { Log } from 'svc-host/sdk'
import { waitForApproval } from './approval.ts'
import { clampBitrate } from './bitrate.ts'
import type { Channel, NoMessage, RefuseReason } from './channel.ts'
import { type Ending, endingOfClose, protocolError } from './endings.ts'
import { pairingSid } from './keys.ts'
import { checkMode, decode32, type Message, ProtocolError } from './messages.ts'
import type { Plane } from './plane.ts'
import type { LiveSession } from './session.ts'

export interface ConversationParts {
  readonly plane: Plane
  readonly pairing: PairingWindow
  readonly queue: PairingQueue
  readonly isPaired: (fingerprint: string) => boolean
  readonly host: {
    readonly name: string
    readonly id: string
    readonly version: string
    readonly fingerprint: string
  }
  readonly log: Log
  /** The client has a session now. */
  readonly onAdmitted: () => void
  /** How long the client may take for its next message, milliseconds; default as in section 2. */
  readonly limits?: { readonly stepMs: number; readonly pairStepMs: number }
}

const defaultLimits = { stepMs: 10_000, pairStepMs: 60_000 }
const version = 1
/** Requests of a live client beyond this many a second are read more slowly. */
const requestsPerSecond = 50

const isNothing = (answer: Message | NoMessage): answer is NoMessage => typeof answer === 'string'

/** Waits for one of these messages; pings are answered, a close or silence ends the connection: undefined. */
const expect = async <T extends Message['type']>(
  channel: Channel,
  limitMs: number,
  ...types: readonly T[]
): Promise<Extract<Message, { type: T }> | undefined> => {
  const deadline = performance.now() + limitMs
  for (;;) {
    const message = await channel.next(Math.max(0, deadline - performance.now()))
    if (isNothing(message)) {
      if (message === 'silent') channel.close('idle', `waited in vain for ${types.join(' or ')}`)
      return undefined
    }
    if ((types as readonly string[]).includes(message.type)) return message as Extract<Message, { type: T }>
    if (message.type === 'close') {
      channel.end()
      return undefined
    }
    if (message.type === 'ping') channel.send({ type: 'pong', id: message.id })
    else if (message.type !== 'pong') {
      throw new ProtocolError(`${message.type} came where ${types.join(' or ')} belongs`)
    }
  }
}

const refusals: Record<string, string> = {
  'no-window': 'the PIN window of this host is not open: arm it there, then try again',
  'other-device': 'the PIN window of this host is open for another device',
  'outside-lan': 'from outside its network this host pairs only a device that the window was armed for',
  pace: 'that was too soon after the last attempt: wait a moment',
  'bad-share': 'the share is no element that can be used',
  'wrong-pin': 'the PIN is wrong, and spent: arm a new one on the host',
  'host-error': 'the host could not store this device; see its log',
}
const refusePairing = (channel: Channel, reason: RefuseReason, retryAfterMs?: number): void =>
  channel.refuse(
    reason,
    refusals[reason] ?? reason,
    retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs },
  )

/** The PIN exchange from its first share on; true when the device is paired now. */
const pair = async (
  channel: Channel,
  share: string,
  name: string,
  parts: ConversationParts,
): Promise<boolean> => {
  const { fingerprint, address, exporter } = channel
  const exchange = parts.pairing.begin({
    fingerprint,
    name,
    address,
    hostFingerprint: parts.host.fingerprint,
    sid: pairingSid(exporter),
    share: decode32(share),
  })
  if ('refused' in exchange) {
    refusePairing(channel, exchange.refused, exchange.retryAfterMs)
    return false
  }
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
  channel.send({ type: 'pair-share', share: base64(exchange.share) })
  try {
    const proof = await expect(channel, (parts.limits ?? defaultLimits).pairStepMs, 'pair-confirm')
    if (!proof) return false
    const done = await exchange.confirm(decode32(proof.tag))
    if ('refused' in done) {
      refusePairing(channel, done.refused)
      return false
    }
    channel.send({ type: 'pair-confirm', tag: base64(done.tag) })
    return true
  } finally {
    exchange.abandon()
  }
}

const resize = async (
  channel: Channel,
  session: LiveSession,
  mode: { width: number; height: number; hz: number },
) => {
  const wrong = checkMode(mode)
  if (wrong) return channel.send({ type: 'resize-refused', message: wrong })
  try {
    channel.send({ type: 'resized', ...(await session.resize(mode)) })
  } catch (error) {
    channel.send({ type: 'resize-refused', message: error instanceof Error ? error.message : String(error) })
  }
}

/** Serves a live client until its connection or its session is over; resolves to what the client meant by that. */
const serveRequests = async (
  channel: Channel,
  session: LiveSession,
  log: Log,
): Promise<Ending | undefined> => {
  for (;;) {
    const message = await channel.next()
    if (isNothing(message)) return undefined
    if (message.type === 'close') return endingOfClose(message.code)
    if (message.type === 'ping') channel.send({ type: 'pong', id: message.id })
    else if (message.type === 'keyframe') session.requestKeyframe()
    else if (message.type === 'resize') await resize(channel, session, message.mode)
    else if (message.type === 'bitrate') {
      const kbps = clampBitrate(message.kbps)
      session.setBitrate(kbps)
      channel.send({ type: 'bitrate', kbps })
    } else if (message.type === 'stats')
      log.debug('what the client sees', { session: session.id, ...message })
    else if (message.type !== 'pong') throw new ProtocolError(`${message.type} came while streaming`)
    await sleep(1000 / requestsPerSecond)
  }
}

const stream = async (channel: Channel, session: LiveSession, log: Log): Promise<void> => {
  try {
    const ending = await serveRequests(channel, session, log)
    if (ending) await session.end(ending)
    else session.lose(channel)
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error
    await session.end(protocolError(error.message))
  }
}

const speak = async (channel: Channel, parts: ConversationParts): Promise<void> => {
  const { host, plane, queue, log, onAdmitted, isPaired, limits = defaultLimits } = parts
  const hello = await expect(channel, limits.stepMs, 'hello')
  if (!hello) return
  if (hello.protocol.min > version || hello.protocol.max < version) {
    return channel.refuse('version', `this host speaks version ${version} of the protocol`)
  }
  channel.send({
    type: 'welcome',
    protocol: version,
    host: { name: host.name, id: host.id, version: host.version },
    paired: isPaired(channel.fingerprint),
  })
  let limitMs = hello.intent === 'pair' ? limits.pairStepMs : limits.stepMs
  for (;;) {
    const message = await expect(channel, limitMs, 'pair-share', 'start')
    if (!message) return
    if (message.type === 'pair-share') {
      if (!(await pair(channel, message.share, hello.name, parts))) return
      limitMs = limits.stepMs
      continue
    }
    const knocks = message.wait !== false && !isPaired(channel.fingerprint)
    if (knocks && !(await waitForApproval(channel, hello.name, queue))) return
    const session = await plane.start(channel, message, performance.now())
    if ('refused' in session) return channel.refuse(session.refused, session.message)
    onAdmitted()
    return stream(channel, session, log)
  }
}

/** Speaks with one client until its connection is over; never rejects. */
export const converse = async (channel: Channel, parts: ConversationParts): Promise<void> => {
  try {
    await speak(channel, parts)
  } catch (error) {
    if (error instanceof ProtocolError) return channel.close('protocol-error', error.message)
    parts.log.error('a control connection failed', { err: error })
    channel.close('host-error', 'the host made a mistake; see its log')
  }
}
