// The media engine's typed face: small handles, control plane only. Frames, packets and input never enter JavaScript.
import { addon, type Ended, engineNumber, onReport } from './addon.ts'
import {
  checkAudioSource,
  checkMode,
  checkNumber,
  checkPlane,
  checkSession,
  checkSink,
  checkSource,
} from './options.ts'

export type { Ended } from './addon.ts'
export { abi } from './addon.ts'

/** A start that failed: `stage` names the rung of the ladder that did, `message` what to do about it. */
export interface NativeError extends Error {
  readonly stage: string
  readonly code: string
}

/** Where pictures come from. */
export type SourceConfig =
  | {
      readonly kind: 'x11'
      /** For example `:90`. */
      readonly display: string
      /** Path of the display's Xauthority file. */
      readonly xauthority: string
      /** The pointer is drawn into the picture. */
      readonly cursor: boolean
    }
  | { readonly kind: 'test'; readonly width: number; readonly height: number; readonly hz: number }

/** A picture source, counted per display: capture runs while at least one session uses it. */
export interface Source extends AsyncDisposable {
  /** Of the newest picture: follows the display when that is resized. */
  readonly width: number
  readonly height: number
  /** Never rejects. */
  readonly ended: Promise<Ended>
  /** Ends capture; sessions that still watch it end as `source-lost`. */
  close(): Promise<void>
}

/** Channels of sound: stereo, 5.1 or 7.1. */
export type AudioChannels = 2 | 6 | 8

/** Where sound comes from. */
export type AudioSourceConfig =
  | {
      readonly kind: 'pulse'
      readonly channels: AudioChannels
      /** Path of the server's socket. */
      readonly server: string
      /** Path of a file with the server's cookie. */
      readonly cookie: string
      /** Name of the server's source to record. */
      readonly device: string
    }
  /** 440 Hz in the first tenth of each second of the clock that the test picture shows. */
  | { readonly kind: 'tone'; readonly channels: AudioChannels }

/** A source of sound, captured from its opening on: a sound server may need seconds for its first samples. */
export interface AudioSource extends AsyncDisposable {
  /** Ends capture; sessions that still listen have silence. */
  close(): Promise<void>
}

/** Where a session's input goes. */
export interface InputSinkConfig {
  readonly kind: 'x11'
  readonly display: string
  readonly xauthority: string
}
/** Key and button state is kept per session and released at its end. */
export interface InputSink extends AsyncDisposable {
  close(): Promise<void>
}

/** One UDP socket that serves all sessions of a plane. */
export interface PlaneConfig {
  /** `::` for dual stack, or an address. */
  readonly address: string
  /** 0 chooses a free one. */
  readonly port: number
}
export interface Plane extends AsyncDisposable {
  readonly port: number
  /** Datagrams that were dropped because they belonged to nobody or did not open, since the start. */
  stats(): { readonly received: number; readonly rejected: number }
  openSession(config: SessionConfig): Promise<Session>
  close(): Promise<void>
}

/** 28 bytes each, key then IV (PROTOCOL.md, section 3); wiped from the caller's buffers once copied. */
export interface SessionKeys {
  readonly videoOut: Uint8Array
  readonly audioOut: Uint8Array
  readonly pathOut: Uint8Array
  readonly inputIn: Uint8Array
  readonly pathIn: Uint8Array
}

export interface Mode {
  readonly width: number
  readonly height: number
  readonly hz: number
}

export interface SessionConfig {
  /** 16 lowercase hex characters. */
  readonly id: string
  readonly epoch: number
  readonly generation: number
  readonly keys: SessionKeys
  readonly source: Source
  readonly inputSink: InputSink | null
  /** Opus packets of this form; null or absent: no sound. */
  readonly audio?: { readonly channels: AudioChannels; readonly frameMs: 5 | 10 } | null
  /** With as many channels as `audio`; null or absent: silence until one is set. */
  readonly audioSource?: AudioSource | null
  readonly mode: Mode
  readonly codec: 'h264'
  readonly bitrateKbps: number
  /** Bits of wire-decisions "Grants", enforced on each input event. */
  readonly grants: number
  /** Whole UDP payload, 1200..1452. */
  readonly maxDatagramBytes: number
  /** 1000..120000. */
  readonly idleTimeoutMs: number
  /** Least parity shards per hundred data shards, 0..100; measured losses bring more. */
  readonly fecPercent: number
}

/** One session's pipeline: source → convert → encode → packetize → seal → send, and input back. */
export interface Session extends AsyncDisposable {
  /** Never rejects. */
  readonly ended: Promise<Ended>
  /** Milliseconds from open to the first video packet that was sent; never rejects, never resolves when there was none. */
  readonly streaming: Promise<number>
  requestKeyframe(): void
  setGrants(mask: number): void
  setBitrate(kbps: number): void
  /** Goes on with another source of sound, of as many channels; null: silence. */
  setAudioSource(source: AudioSource | null): void
  /** Goes on with another source or mode under a raised generation; keys and counters stay. */
  resize(source: Source, mode: Mode, generation: number): Promise<void>
  /** A copied snapshot of counters: deltas since the last call, latencies over the same span. */
  sample(): Sample
  close(): Promise<void>
}

/** What statistics use (wire-decisions, "Stats sample"); counters are deltas since the previous sample. */
export interface Sample {
  /** Length of the span, milliseconds. */
  readonly span_ms: number
  /** In pipeline order: queue, capture, convert, encode, packetize, send. Microseconds. */
  readonly stages: readonly { readonly name: string; readonly p50_us: number; readonly p99_us: number }[]
  readonly frames_new: number
  readonly frames_repeated: number
  readonly frames_dropped: number
  /** Sealed datagrams that were attempted, and their bytes. */
  readonly packets_sent: number
  readonly wire_bytes: number
  /** Video payload without parity and framing. */
  readonly payload_bytes: number
  readonly parity_packets: number
  readonly send_dropped: number
  readonly keyframes: number
  /** Frames that refer past what the client had lost. */
  readonly recoveries: number
  /** Video on the wire, parity with it, that the way to the client is thought to bear now; at most what was set. */
  readonly bitrate_kbps: number
  /** Largest datagram that passes, as probes have found. */
  readonly datagram_bytes: number
  /** Video shards lost on the way, of a hundred, as parity takes them to be. */
  readonly loss_percent: number
  /** Parity shards per hundred data shards, lately. */
  readonly parity_percent: number
  /** Rate at which what a frame has beyond 16 packets leaves. */
  readonly pace_kbps: number
  /** As reported by the client; absent before its first report. */
  readonly packets_lost?: number
  readonly fec_recovered?: number
  readonly frames_lost?: number
  readonly rtt_us?: number
  /** Capture to fully sent. */
  readonly host_p50_us: number
  readonly host_p99_us: number
  readonly input_events: number
  readonly input_dropped: number
  /** Sealed datagrams of sound, parity among them; these seven are absent without sound. */
  readonly audio_packets?: number
  readonly audio_parity_packets?: number
  readonly audio_wire_bytes?: number
  /** Pieces of 5 ms that were captured and came too late to be sent. */
  readonly audio_dropped?: number
  /** Packets that never came to the client and parity could not bring back, as it reports: silence, or concealed. */
  readonly audio_packets_lost?: number
  /** Samples made or left out to keep sound and picture together, since the source of sound was opened. */
  readonly audio_corrected_samples?: number
  /** How much faster than the picture's clock that of the sound runs, parts per million. */
  readonly audio_drift_ppm?: number
}

/** Opens a picture source; rejects with `NativeError` (stages `options`, `source`, `connect`, `extensions`, `capture`). */
export async function openSource(config: SourceConfig): Promise<Source> {
  checkSource(config)
  const id = engineNumber()
  const { ended, end } = endings(id)
  await addon.openSource(id, config)
  let size: readonly [number, number] = addon.sourceSize(id) ?? [0, 0]
  const current = () => {
    size = addon.sourceSize(id) ?? size
    return size
  }
  return tagged<Source>(id, 'source', () => addon.closeSource(id), end, {
    get width() {
      return current()[0]
    },
    get height() {
      return current()[1]
    },
    ended,
  })
}

/**
 * Opens a source of sound and keeps it open; rejects with `NativeError` (stages `options`, `audio`). A server that is
 * not there, or leaves, is no error: it is tried again, and there is silence meanwhile.
 */
export async function openAudioSource(config: AudioSourceConfig): Promise<AudioSource> {
  checkAudioSource(config)
  const id = engineNumber()
  await addon.openAudioSource(id, config)
  const handle = tagged<AudioSource>(
    id,
    'audio source',
    () => addon.closeAudioSource(id),
    () => {},
    {},
  )
  channelsOf.set(handle, config.channels)
  return handle
}

/** Opens the way into a display; rejects with `NativeError` (stages `options`, `input`, `connect`, `extensions`). */
export async function openInputSink(config: InputSinkConfig): Promise<InputSink> {
  checkSink(config)
  const id = engineNumber()
  await addon.openInputSink(id, config)
  return tagged<InputSink>(
    id,
    'input sink',
    () => addon.closeInputSink(id),
    () => {},
    {},
  )
}

/** Opens the plane's socket and starts to receive; rejects with `NativeError` (stages `options`, `socket`). */
export async function openPlane(config: PlaneConfig): Promise<Plane> {
  checkPlane(config)
  const id = engineNumber()
  await addon.openPlane(id, config)
  let known = addon.planeStats(id)!
  const stats = () => {
    known = addon.planeStats(id) ?? known
    return known
  }
  return tagged<Plane>(
    id,
    'plane',
    () => addon.closePlane(id),
    () => {},
    {
      port: known.port,
      stats: () => ({ received: stats().received, rejected: stats().rejected }),
      openSession: wish => openSession(id, wish),
    },
  )
}

async function openSession(plane: number, config: SessionConfig): Promise<Session> {
  checkSession(config)
  const id = engineNumber()
  const { ended, end, streaming } = endings(id)
  const source = numberOf(config.source, 'source')
  const inputSink = config.inputSink ? numberOf(config.inputSink, 'input sink') : 0
  const audioNumber = (from: AudioSource | null | undefined) => {
    if (!from || !config.audio) return 0
    const { channels } = config.audio
    checkNumber('channels of the audio source', channelsOf.get(from), channels, channels)
    return numberOf(from, 'audio source')
  }
  const audioSource = audioNumber(config.audioSource)
  await addon.openSession(id, { ...config, plane, source, inputSink, audioSource })
  let last = emptySample
  return tagged<Session>(id, 'session', () => addon.closeSession(id), end, {
    ended,
    streaming,
    requestKeyframe: () => addon.requestKeyframe(id),
    setGrants: mask => addon.setGrants(id, checkNumber('grants', mask, 0, 0xffff_ffff)),
    setBitrate: kbps => addon.setBitrate(id, checkNumber('kbps', kbps, 100, 1_000_000)),
    setAudioSource: from => addon.setAudioSource(id, audioNumber(from)),
    async resize(next, mode, generation) {
      checkMode(mode)
      checkNumber('generation', generation, 0, 0xffff_ffff)
      await addon.resize(id, numberOf(next, 'source'), mode, generation)
    },
    sample() {
      last = addon.sample(id) ?? last
      return last
    },
  })
}

/** Codecs that the encoders probed here can do, in the order of wire-decisions. */
export function codecs(): readonly string[] {
  return addon.codecs()
}

/** What a session that was closed at once has to tell. */
const emptySample: Sample = {
  ...{ span_ms: 0, stages: [], frames_new: 0, frames_repeated: 0, frames_dropped: 0, packets_sent: 0 },
  ...{ wire_bytes: 0, payload_bytes: 0, parity_packets: 0, send_dropped: 0, bitrate_kbps: 0 },
  ...{ keyframes: 0, recoveries: 0, datagram_bytes: 0, loss_percent: 0, parity_percent: 0, pace_kbps: 0 },
  ...{ host_p50_us: 0, host_p99_us: 0, input_events: 0, input_dropped: 0 },
}

/** Which native handle lies behind an object of this face, and what kind it is. */
const natives = new WeakMap<object, { readonly id: number; readonly kind: string }>()

/** Of each source of sound. */
const channelsOf = new WeakMap<object, AudioChannels>()

function numberOf(handle: object, kind: string): number {
  const native = natives.get(handle)
  if (native?.kind !== kind) throw new TypeError(`expected a ${kind} of this engine`)
  return native.id
}

/** A handle that was dropped without being closed is closed once it is collected. */
const forgotten = new FinalizationRegistry<() => Promise<void>>(close => {
  close().catch(() => {})
})

/** Completes a handle: closing it is idempotent, and every way to close it is the same. */
function tagged<T extends AsyncDisposable & { close(): Promise<void> }>(
  id: number,
  kind: string,
  closeNative: () => Promise<void>,
  end: (why: Ended) => void,
  members: Omit<T, 'close' | typeof Symbol.asyncDispose>,
): T {
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= closeNative().then(() => end('stopped'))
    return closing
  }
  const handle = Object.defineProperties(
    { close, [Symbol.asyncDispose]: close },
    Object.getOwnPropertyDescriptors(members),
  ) as unknown as T
  natives.set(handle, { id, kind })
  forgotten.register(handle, closeNative)
  return handle
}

/** The promises that reports about a handle settle. */
function endings(id: number) {
  const ended = Promise.withResolvers<Ended>()
  const streaming = Promise.withResolvers<number>()
  const forget = onReport(id, report => {
    if (report.ended) ended.resolve(report.ended)
    else streaming.resolve(report.streamingMs)
  })
  const end = (why: Ended) => {
    forget()
    ended.resolve(why)
  }
  return { ended: ended.promise, streaming: streaming.promise, end }
}
