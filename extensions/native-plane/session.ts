// One live session: its display, its pipeline of the current epoch and the control connection, if there is one.
import type { DisplayLease } from 'svc-host/api/displays'
import type { MediaPlane, Mode, PictureSource, Pipeline } from 'svc-host/api/media'
import type { PairedDevice, PairingRoster } from 'svc-host/api/pairing'
import type { SessionEntry } from 'svc-host/api/sessions'
import type { Log } from 'svc-host/sdk'
import type { Channel } from './channel.ts'
import { type Ending, endingOfPipeline, endings } from './endings.ts'
import { mediaKeys } from './keys.ts'
import type { SoundAccess, SoundTerms } from './sound.ts'

/** What client and host have agreed on; each start of the session agrees anew. */
export interface Terms {
  readonly mode: Mode
  readonly codec: string
  readonly bitrateKbps: number
  readonly maxDatagramBytes: number
  /** Bits that the client asked for; it gets those of them that the device has. */
  readonly grantsAsked: number
  readonly sound: SoundTerms | null
}

export interface SessionParts {
  /** 16 lowercase hex characters. */
  readonly id: string
  readonly entry: SessionEntry
  readonly lease: DisplayLease
  readonly media: MediaPlane
  readonly roster: PairingRoster
  readonly sounds: SoundAccess
  readonly device: PairedDevice
  readonly idleTimeoutMs: number
  readonly log: Log
  /** Told once, before anything is taken down. */
  onEnd(session: LiveSession): void
}

export interface LiveSession {
  readonly id: string
  readonly fingerprint: string
  /** False while the client has no control connection. */
  readonly isConnected: boolean
  /** Starts an epoch on this connection and tells the client; rejects when the media cannot be opened. */
  start(channel: Channel, terms: Terms, askedAtMs: number): Promise<void>
  /** The mode changes in mid-stream; rejects with a sentence when it cannot. */
  resize(mode: Mode): Promise<{ mode: Mode; generation: number }>
  setBitrate(kbps: number): void
  requestKeyframe(): void
  /** This connection has broken without a `close`: the session waits for the client to come back. */
  lose(channel: Channel): void
  /** Ends the session for good; idempotent, resolves when all is taken down. */
  end(ending: Ending): Promise<void>
}

/** Header, tag and video header around a packet's payload. */
const framingBytes = 20 + 16 + 24

export const openSession = (parts: SessionParts): LiveSession => {
  const { id, entry, lease, media, roster, sounds, idleTimeoutMs, log, onEnd } = parts
  const { fingerprint } = parts.device
  let device = parts.device
  let terms: Terms | undefined
  let epoch = 0
  let generation = 1
  let mode = lease.mode
  let picture: PictureSource = lease.picture
  let pipeline: Pipeline | undefined
  /** Of the epoch; null: it has no sound, and gets none. */
  let sound: SoundTerms | null = null
  let channel: Channel | undefined
  let waiting: NodeJS.Timeout | undefined
  let over: Promise<void> | undefined
  let totals = { frames: 0, dropped: 0, input: 0, inputDropped: 0 }

  let queue: Promise<unknown> = Promise.resolve()
  /** Changes of the pipeline come one after the other. */
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const run = queue.then(() => {
      if (over) throw new Error('the session has ended')
      return change()
    })
    queue = run.catch(() => {})
    return run
  }

  const grants = (): number => device.grants & (terms?.grantsAsked ?? 0)

  const closePipeline = async (): Promise<void> => {
    const old = pipeline
    pipeline = undefined
    if (!old) return
    await old.close().catch(error => log.error('a pipeline could not be closed', { session: id, err: error }))
    const last = old.totals()
    totals = {
      frames: totals.frames + last.frames_sent,
      dropped: totals.dropped + last.frames_dropped,
      input: totals.input + last.input_events,
      inputDropped: totals.inputDropped + last.input_dropped,
    }
  }

  const shut = async ({ ended, reason, close, deliberate }: Ending): Promise<void> => {
    onEnd(session)
    clearTimeout(waiting)
    stopWatching()
    stopListening()
    if (close) channel?.close(close.code, close.message)
    else channel?.end()
    channel = undefined
    await queue
    await closePipeline()
    entry.end(ended, reason, {
      frames_sent: totals.frames,
      frames_dropped: totals.dropped,
      ...(terms ? { path_mtu: terms.maxDatagramBytes } : {}),
      input: { events: totals.input, mic: 0, rich: 0, dropped: totals.inputDropped },
    })
    log.info(`session ${entry.id} ended: ${ended}`, { session: id, client: parts.device.name })
    await lease.release({ deliberate }).catch(error => {
      log.error('a display could not be given back', { session: id, err: error })
    })
  }
  const end = (ending: Ending): Promise<void> => {
    over ??= shut(ending)
    return over
  }
  /** Where nobody waits for the end. */
  const endLater = (ending: Ending): void => {
    end(ending).catch(error => log.error('a session did not end cleanly', { session: id, err: error }))
  }

  const stopWatching = roster.watch(fingerprint, now => {
    if (now === 'unpaired' || now === 'expired') return endLater(endings[now])
    const before = device
    device = now
    if (now.name !== before.name) entry.renamed(now.name)
    if (now.grants === before.grants) return
    pipeline?.setGrants(grants())
    channel?.send({ type: 'grants', grants: grants() })
    entry.changed({ accessLevel: now.level })
  })
  /** Where the display's sound comes from now; null where nothing gives it any. */
  const soundSource = async ({ channels }: SoundTerms) =>
    (await sounds.now?.open({ slot: lease.slot, picture }, channels).catch(error => {
      log.warn(`session ${entry.id} stays silent`, { session: id, err: error })
    })) ?? null

  const stopListening = sounds.watch(() => {
    const changed = inTurn(async () => {
      if (!sound || !pipeline) return
      const source = await soundSource(sound)
      await pipeline.setSound(source)
      entry.changed({ audio: source !== null })
    })
    changed.catch(error => over || log.warn('sound could not be changed', { session: id, err: error }))
  })
  void lease.lost.then(() => endLater(endings.displayLost))
  void lease.taken.then(() => endLater(endings.taken))

  const moveTo = async (next: Mode): Promise<void> => {
    picture = await lease.resize(next)
    generation++
    mode = next
    try {
      await pipeline?.resize(picture, next, generation)
    } catch (error) {
      // The display has its new mode already and the pipeline has not: nothing to go on with.
      endLater(endings.hostError)
      throw error
    }
  }

  const openEpoch = async (on: Channel, wanted: Terms, askedAtMs: number): Promise<void> => {
    await closePipeline()
    const isOther =
      wanted.mode.width !== mode.width || wanted.mode.height !== mode.height || wanted.mode.hz !== mode.hz
    // A display that others share keeps its mode, whatever one of them asks for when it comes back.
    if (isOther && !lease.isShared) await moveTo(wanted.mode)
    terms = { ...wanted, mode }
    const source = wanted.sound && (await soundSource(wanted.sound))
    sound = source && wanted.sound
    epoch++
    const isFirst = epoch === 1
    const openedAtMs = performance.now()
    const opened = await media.open({
      id,
      epoch,
      generation,
      keys: mediaKeys(on.exporter, id, epoch),
      picture,
      mode,
      sound: sound && { ...sound, source },
      codec: wanted.codec,
      bitrateKbps: wanted.bitrateKbps,
      grants: grants(),
      maxDatagramBytes: wanted.maxDatagramBytes,
      idleTimeoutMs,
    })
    pipeline = opened
    void opened.ended.then(why => pipeline === opened && endLater(endingOfPipeline(why)))
    if (isFirst) void opened.streaming.then(ms => entry.streaming(openedAtMs - askedAtMs + ms))
  }

  const session: LiveSession = {
    id,
    fingerprint,
    get isConnected() {
      return channel !== undefined
    },

    start: (on, wanted, askedAtMs) =>
      inTurn(async () => {
        channel?.close('replaced', 'the session goes on over another connection')
        clearTimeout(waiting)
        channel = on
        await openEpoch(on, wanted, askedAtMs)
        on.send({
          type: 'started',
          session: id,
          epoch,
          mode,
          video: { codec: wanted.codec },
          audio: sound && { codec: 'opus', channels: sound.channels, frame_ms: sound.frameMs, rate: 48_000 },
          grants: grants(),
          port: media.port,
          bitrate_kbps: wanted.bitrateKbps,
          max_datagram_bytes: wanted.maxDatagramBytes,
          idle_timeout_ms: idleTimeoutMs,
          generation,
        })
        log.info(`session ${entry.id} ${epoch === 1 ? 'started' : 'resumed'}`, {
          session: id,
          client: device.name,
          mode,
          codec: wanted.codec,
          epoch,
        })
        const { bitrateKbps } = wanted
        const facts = { mode, bitrateKbps, audio: sound !== null, accessLevel: device.level }
        entry.changed(facts)
        entry.live(
          {
            ...facts,
            ...(lease.isJoined ? { join: true } : {}),
            hdr: false,
            codec: wanted.codec,
            bitDepth: 8,
            chroma: '4:2:0',
            packetSizeBytes: wanted.maxDatagramBytes - framingBytes,
          },
          {
            stop: how => end(how === 'operator' ? endings.stopped : endings.stopping),
            requestKeyframe: session.requestKeyframe,
            sample: () => pipeline?.sample(),
          },
        )
      }),

    resize: next =>
      inTurn(async () => {
        const before = performance.now()
        await moveTo(next)
        entry.resized(next, performance.now() - before)
        return { mode: next, generation }
      }),

    setBitrate: kbps => {
      pipeline?.setBitrate(kbps)
      entry.changed({ bitrateKbps: kbps })
    },

    requestKeyframe: () => pipeline?.requestKeyframe(),

    lose: which => {
      if (channel !== which || over) return
      channel = undefined
      waiting = setTimeout(() => endLater(endings.lost), idleTimeoutMs)
    },

    end,
  }
  return session
}
