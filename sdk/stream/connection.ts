// From an address to a session: hello, pairing by PIN, start. PROTOCOL.md, sections 2.1 to 2.3.
import { isIPv6 } from 'node:net'
import { defaultPort, openControl } from './control.ts'
import { initiate, pairingChannel } from './cpace.ts'
import { StreamError } from './error.ts'
import type { HostInfo, HostMessage, Mode, VideoCodec } from './host-message.ts'
import type { Identity } from './identity.ts'
import { pairLabel } from './media-keys.ts'
import { openSession } from './session.ts'
import type { SessionListener, StreamSession } from './session-face.ts'

/** What a client may do, as bits of `grants` (section 2.3). */
export const grantBits = {
  gamepad: 0x01,
  pointer: 0x02,
  keyboard: 0x04,
  clipboard: 0x08,
  microphone: 0x10,
  launch: 0x20,
} as const

export interface ConnectOptions {
  /** Name or IP address. */
  readonly host: string
  /** TCP port, 9777 when left out. */
  readonly port?: number
  readonly identity: Identity
  /** How the host names this device to its operator; 1..64 characters. */
  readonly name: string
  /** `pair`: to be followed by `pair()`. `stream`: for a host that is already known, or to knock. */
  readonly intent: 'stream' | 'pair'
  /**
   * With `stream`, for a host that does not know this device, or that this client has never met: `start` waits until
   * the host's operator has approved the device. The certificate of a new host is then taken as it was shown, and
   * pinned: let the user compare `fingerprint`. Without it such a host is `not-paired`, or the access `expired`.
   */
  readonly knock?: boolean
  /** A fingerprint that the user has from elsewhere: trusted, and pinned, without a PIN. 64 hex characters. */
  readonly expectFingerprint?: string
  /** For each step of the handshake, milliseconds; 5000 when left out. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** All of it is a wish; `StreamSession.started` tells what was granted (section 2.3). */
export interface StartOptions extends SessionListener {
  readonly mode: Mode
  /** In order of preference. */
  readonly video?: readonly VideoCodec[]
  /** Left out: no sound. */
  readonly audio?: { readonly channels: 2 | 6 | 8; readonly frameMs: 5 | 10 }
  /** Bits of `grantBits`; all of them when left out. */
  readonly grants?: number
  readonly bitrateKbps?: number
  /** 1200..1452; the host's choice when left out. */
  readonly maxDatagramBytes?: number
  /** Where the host's media port is reached, when a port forwarding gives it another number than the host tells. */
  readonly mediaPort?: number
  /** A library id to launch. */
  readonly launch?: string
  /** `started.session` of a session that was lost: goes on with it instead of a new one. */
  readonly resume?: string
  /**
   * The host lets this device wait, for `approval` by its operator, at most so many milliseconds; called at most once for
   * each wait.
   */
  readonly onWait?: (waitsFor: string, limitMs: number | undefined) => void
  /** Ends the start, and later the session, deliberately. */
  readonly signal?: AbortSignal
}

export interface Connection {
  readonly host: HostInfo
  /** Of the host's certificate; 64 lowercase hex characters. */
  readonly fingerprint: string
  /** The host knows this client, and its access is not over; true after `pair`. */
  readonly isPaired: boolean
  /**
   * Proves to each other that both know the PIN (section 2.2) and pins the host. Rejects with `wrong-pin`,
   * `no-window`, `other-device`, `pace`, `outside-lan`, `bad-share`, or `host-unproven` when the host did not.
   */
  pair(pin: string, signal?: AbortSignal): Promise<void>
  /**
   * Rejects with the host's refusal, whose reason is the error's code; a device that knocks with `denied`, `no-answer`,
   * `outside-lan` or `busy`. The connection belongs to the session then.
   */
  start(options: StartOptions): Promise<StreamSession>
  /** For a connection on which nothing was started. */
  close(): void
}

/** Time to set up a display and an encoder, milliseconds. */
const startTimeoutMs = 60_000
/** Twice what the host waits for the operator in a PIN exchange would be for a person; this is for a machine. */
const pairTimeoutMs = 15_000

/** `host:port` as the known hosts are filed under; IPv6 in brackets. */
export const addressOf = (host: string, port: number = defaultPort): string =>
  `${isIPv6(host) ? `[${host}]` : host}:${port}`

const said: Partial<Record<string, string>> = {
  version: 'it speaks no protocol version that this client speaks',
  'not-paired': 'it does not know this device; pair with a PIN',
  'no-window': 'it is not accepting pairings now; open a pairing window on the host and use its PIN',
  'other-device': 'its pairing window is meant for another device',
  'outside-lan': 'it pairs only with devices of its own network',
  pace: 'there were too many tries; wait and try again',
  'wrong-pin': 'the PIN is not the one it shows; that PIN is spent, open a new pairing window',
  'bad-share': 'it took the key exchange for broken',
  denied: 'its operator said no',
  'no-answer': 'its operator has not answered',
  expired: "this device's access is over; ask its operator to extend it",
  busy: 'all of its sessions are in use',
  'no-codec': 'it has none of the codecs that were asked for',
  'no-display': 'it could not make a display',
  mode: 'it cannot do that mode',
  'host-error': 'something went wrong there; its log says what',
}

const refusal = (message: Extract<HostMessage, { type: 'refuse' }>): StreamError => {
  const why = message.message || said[message.reason] || 'it gave no reason'
  const retry = message.retryAfterMs === undefined ? {} : { retryAfterMs: message.retryAfterMs }
  return new StreamError(message.reason, `the host refused (${message.reason}): ${why}`, retry)
}

/**
 * Connects and says hello. Nothing is sent to a host whose certificate is not the pinned one (`fingerprint-changed`),
 * nor, with intent `stream` and without `knock`, to one that was never pinned (`not-paired`). Rejects further with `unreachable`,
 * `not-a-host`, `version`, `timeout`, `protocol-error`, `lost` or `aborted`.
 */
export const connect = async (options: ConnectOptions): Promise<Connection> => {
  const { host, port = defaultPort, identity, signal, timeoutMs = 5000 } = options
  const address = addressOf(host, port)
  const control = await openControl({ host, port, identity, timeoutMs, signal })
  const { fingerprint } = control
  const expect = async <T extends HostMessage['type']>(type: T, waitMs: number, abort = signal) => {
    for (;;) {
      const message = await control.receive({ timeoutMs: waitMs, ...(abort && { signal: abort }) })
      if (message.type === 'refuse') throw refusal(message)
      if (message.type === 'ping') control.send({ type: 'pong', id: message.id })
      else if (message.type === type) return message as Extract<HostMessage, { type: T }>
      else if (message.type !== 'pong') {
        throw new StreamError('protocol-error', `the host sent ${message.type} where ${type} was due`)
      }
    }
  }
  /** Whatever goes wrong before a session exists ends the connection. */
  const orEnd = async <T>(step: () => Promise<T>): Promise<T> => {
    try {
      return await step()
    } catch (error) {
      control.end()
      throw error
    }
  }
  const pin = (info: HostInfo) =>
    identity.hosts.pin({
      address,
      fingerprint,
      name: info.name,
      id: info.id,
      pairedUnix: Math.floor(Date.now() / 1000),
    })

  const checkTrust = () => {
    const known = identity.hosts.byAddress(address)
    const expected = options.expectFingerprint?.toLowerCase() ?? known?.fingerprint
    if (expected !== undefined && expected !== fingerprint) {
      throw new StreamError(
        'fingerprint-changed',
        `${address} shows the certificate ${fingerprint}, but ${expected} was expected: this may be another machine. ` +
          'If the host was set up anew, forget it first and pair again',
      )
    }
    const isMet = expected !== undefined || identity.hosts.byFingerprint(fingerprint) !== undefined
    if (options.intent === 'stream' && !isMet && !options.knock) {
      throw new StreamError(
        'not-paired',
        `this client has never paired with ${address}: pair with a PIN, or knock`,
      )
    }
  }

  const welcome = await orEnd(async () => {
    checkTrust()
    control.send({ type: 'hello', protocol: { min: 1, max: 1 }, name: options.name, intent: options.intent })
    const message = await expect('welcome', timeoutMs)
    if (message.protocol !== 1)
      throw new StreamError('version', `the host chose protocol ${message.protocol}, not 1`)
    if (options.expectFingerprint && !identity.hosts.byAddress(address)) await pin(message.host)
    return message
  })

  let { isPaired } = welcome

  return {
    host: welcome.host,
    fingerprint,
    get isPaired() {
      return isPaired
    },
    close: () => control.end(),
    pair: (digits, pairSignal = signal) =>
      orEnd(async () => {
        if (!/^[0-9]{4}$/.test(digits)) throw new StreamError('bad-argument', 'a PIN is 4 digits')
        const exchange = initiate({
          prs: Buffer.from(digits, 'ascii'),
          ci: pairingChannel(Buffer.from(identity.fingerprint, 'hex'), Buffer.from(fingerprint, 'hex')),
          sid: control.exporter(32, pairLabel, Buffer.alloc(0)),
        })
        control.send({ type: 'pair-share', share: Buffer.from(exchange.share).toString('base64') })
        const { share } = await expect('pair-share', pairTimeoutMs, pairSignal)
        const outcome = exchange.finish(share)
        if (!outcome) throw new StreamError('bad-share', 'the host sent a share that is no group element')
        control.send({ type: 'pair-confirm', tag: Buffer.from(outcome.tag).toString('base64') })
        const { tag } = await expect('pair-confirm', pairTimeoutMs, pairSignal)
        if (!outcome.verify(tag)) {
          throw new StreamError(
            'host-unproven',
            'the host could not prove that it knows the PIN; it was not pinned',
          )
        }
        await pin(welcome.host)
        isPaired = true
      }),
    start: wish =>
      orEnd(async () => {
        const abort = wish.signal ?? signal
        control.send({
          type: 'start',
          mode: wish.mode,
          video: wish.video ?? ['h264'],
          audio: wish.audio ? { channels: wish.audio.channels, frame_ms: wish.audio.frameMs } : null,
          grants: wish.grants ?? 0x3f,
          ...(wish.bitrateKbps && { bitrate_kbps: wish.bitrateKbps }),
          ...(wish.maxDatagramBytes && { max_datagram_bytes: wish.maxDatagramBytes }),
          ...(wish.launch && { launch: wish.launch }),
          ...(wish.resume && { resume: wish.resume }),
          wait: options.knock === true,
        })
        let limitMs: number | undefined = startTimeoutMs
        for (;;) {
          const message = await control.receive({
            ...(limitMs !== undefined && { timeoutMs: limitMs }),
            ...(abort && { signal: abort }),
          })
          if (message.type === 'refuse') throw refusal(message)
          if (message.type === 'ping') control.send({ type: 'pong', id: message.id })
          if (message.type === 'wait') {
            if (!options.knock) throw new StreamError('not-paired', 'the host lets this device wait, unasked')
            limitMs = message.timeoutMs === undefined ? undefined : message.timeoutMs + startTimeoutMs
            wish.onWait?.(message.for, message.timeoutMs)
          }
          if (message.type === 'started') {
            const { started } = message
            // A host that has let this device in is one that it knows from now on.
            const { hosts } = identity
            if (!hosts.byAddress(address) && !hosts.byFingerprint(fingerprint)) await pin(welcome.host)
            const reached = wish.mediaPort === undefined ? started : { ...started, port: wish.mediaPort }
            return openSession(control, reached, wish, abort)
          }
        }
      }),
  }
}
