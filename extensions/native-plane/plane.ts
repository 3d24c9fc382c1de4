// The plane's sessions: admission of a paired device, new sessions, and going on with lost ones.
import { randomBytes } from 'node:crypto'
import { type DisplayLease, type DisplayPool, DisplaysBusy } from 'svc-host/api/displays'
import type { MediaEngine, MediaPlane } from 'svc-host/api/media'
import type { PairingRoster } from 'svc-host/api/pairing'
import type { SessionEntry, SessionRegistry } from 'svc-host/api/sessions'
import type { Log } from 'svc-host/sdk'
import { clampBitrate, defaultBitrate } from './bitrate.ts'
import type { Channel, RefuseReason } from './channel.ts'
import { endings } from './endings.ts'
import { checkMode, type Start } from './messages.ts'
import { type LiveSession, openSession, type Terms } from './session.ts'
import { agreeSound, type SoundAccess } from './sound.ts'

export interface PlaneParts {
  readonly engine: MediaEngine
  readonly media: MediaPlane
  readonly pool: DisplayPool
  readonly registry: SessionRegistry
  readonly roster: PairingRoster
  readonly sounds: SoundAccess
  readonly idleTimeoutMs: number
  readonly log: Log
}

export interface Refusal {
  readonly refused: RefuseReason
  readonly message: string
}

export interface Plane {
  /** Gives the device a session on this connection, or says why not. `started` has been sent when it resolves. */
  start(channel: Channel, start: Start, askedAtMs: number): Promise<LiveSession | Refusal>
  /** Ends all sessions because the plane goes. */
  close(): Promise<void>
}

const defaultDatagramBytes = 1400

const refuse = (refused: RefuseReason, message: string): Refusal => ({ refused, message })
const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export const createPlane = (parts: PlaneParts): Plane => {
  const { engine, media, pool, registry, roster, sounds, idleTimeoutMs, log } = parts
  const sessions = new Map<string, LiveSession>()
  let isClosing = false

  const newId = (): string => {
    const id = randomBytes(8).toString('hex')
    return sessions.has(id) ? newId() : id
  }

  const agree = async (start: Start): Promise<Terms | Refusal> => {
    const wrong = checkMode(start.mode)
    if (wrong) return refuse('mode', wrong)
    const known = await engine.codecs()
    const codec = start.video.find(wish => known.includes(wish))
    if (!codec) return refuse('no-codec', `this host encodes ${known.join(', ') || 'nothing'}`)
    const { width, height, hz } = start.mode
    return {
      mode: { width, height, hz },
      codec,
      bitrateKbps:
        start.bitrate_kbps === undefined ? defaultBitrate(start.mode) : clampBitrate(start.bitrate_kbps),
      maxDatagramBytes: Math.floor(
        Math.min(1452, Math.max(1200, start.max_datagram_bytes ?? defaultDatagramBytes)),
      ),
      grantsAsked: start.grants & 0x7f,
      sound: agreeSound(start.audio),
    }
  }

  const stranger = (fingerprint: string): Refusal =>
    roster.isExpired(fingerprint)
      ? refuse('expired', 'the access of this device is over: ask for more time on the host')
      : refuse('not-paired', 'this device is not paired with this host: pair it by PIN, or knock')

  /** A device that starts anew while its earlier session hangs without a connection has given that one up. */
  const giveUpLost = async (fingerprint: string): Promise<void> => {
    const lost = [...sessions.values()].filter(s => s.fingerprint === fingerprint && !s.isConnected)
    await Promise.all(lost.map(session => session.end(endings.replaced)))
  }

  const begin = async (session: LiveSession, channel: Channel, terms: Terms, askedAtMs: number) => {
    try {
      await session.start(channel, terms, askedAtMs)
    } catch (error) {
      log.error('a session could not start', { session: session.id, err: error })
      // Refused before the session closes the connection, so that the client hears why.
      channel.refuse('host-error', `the stream could not be started: ${sentence(error)}`)
      await session.end(endings.hostError)
      return refuse('host-error', 'the stream could not be started')
    }
    return session
  }

  const enter = async (channel: Channel, entry: SessionEntry, lease: DisplayLease) => {
    const device = roster.find(channel.fingerprint)
    if (!device || isClosing) {
      entry.end('host_error', 'error')
      await lease.release({ deliberate: true })
      return device ? refuse('host-error', 'this host is shutting down') : stranger(channel.fingerprint)
    }
    const id = newId()
    const onEnd = (gone: LiveSession) => sessions.delete(gone.id)
    const session = openSession({
      id,
      entry,
      lease,
      media,
      roster,
      sounds,
      device,
      idleTimeoutMs,
      log,
      onEnd,
    })
    sessions.set(id, session)
    return session
  }

  return {
    start: async (channel, start, askedAtMs) => {
      const device = roster.find(channel.fingerprint)
      if (!device) return stranger(channel.fingerprint)
      const terms = await agree(start)
      if ('refused' in terms) return terms

      const lost = start.resume ? sessions.get(start.resume) : undefined
      if (lost?.fingerprint === channel.fingerprint) return begin(lost, channel, terms, askedAtMs)

      await giveUpLost(channel.fingerprint)
      const client = channel.fingerprint.slice(0, 16)
      const entry = await registry.admit({
        plane: 'native',
        fingerprint: channel.fingerprint,
        client,
        name: device.name,
        address: channel.address,
      })
      if ('refused' in entry) return refuse(entry.refused, entry.message)
      let lease: DisplayLease
      try {
        lease = await pool.acquire({
          mode: terms.mode,
          plane: 'native',
          fingerprint: channel.fingerprint,
          client,
        })
      } catch (error) {
        entry.end('host_error', 'error')
        if (error instanceof DisplaysBusy) return refuse('busy', error.message)
        log.warn('no display for a session', { client, err: error })
        return refuse('no-display', sentence(error))
      }
      const session = await enter(channel, entry, lease)
      if ('refused' in session) return session
      return begin(session, channel, { ...terms, mode: lease.mode }, askedAtMs)
    },

    close: async () => {
      isClosing = true
      await Promise.all([...sessions.values()].map(session => session.end(endings.stopping)))
    },
  }
}
