// The media engine as a service: planes open pipelines on it by plain data, and share captures without knowing it.
import { token } from 'svc-host/sdk'

/** Where pictures come from and input goes: plain data, the same value for everyone who shares a display. */
export type PictureSource =
  | { readonly kind: 'x11'; readonly display: string; readonly xauthority: string }
  | { readonly kind: 'test' }

/** Where sound comes from: plain data, the same value for everyone who shares a display. */
export type SoundSource =
  | {
      /** A source of a PulseAudio server. */
      readonly kind: 'pulse'
      /** Path of the server's socket. */
      readonly server: string
      /** Path of the file with its cookie. */
      readonly cookie: string
      /** Name of the source. */
      readonly device: string
    }
  /** 440 Hz in the first tenth of each second of the clock that the test picture shows. */
  | { readonly kind: 'tone' }

/** Stereo, 5.1 or 7.1. */
export type SoundChannels = 2 | 6 | 8

export interface Sound {
  readonly channels: SoundChannels
  /** Length of a packet, milliseconds. */
  readonly frameMs: 5 | 10
  /** null: silence until there is one. */
  readonly source: SoundSource | null
}

export interface Mode {
  /** Even, 64..7680. */
  readonly width: number
  /** Even, 64..4320. */
  readonly height: number
  /** 1..240. */
  readonly hz: number
}

/** Why a pipeline came to its end. */
export type PipelineEnded = 'stopped' | 'source-lost' | 'encoder-failed' | 'peer-gone' | 'peer-bye'

/** Media keys of one session and epoch, 28 bytes each (PROTOCOL.md of the native plane, section 3). */
export interface PipelineKeys {
  readonly videoOut: Uint8Array
  readonly audioOut: Uint8Array
  readonly pathOut: Uint8Array
  readonly inputIn: Uint8Array
  readonly pathIn: Uint8Array
}

export interface PipelineConfig {
  /** Session id on the wire: 16 lowercase hex characters. */
  readonly id: string
  readonly epoch: number
  readonly generation: number
  readonly keys: PipelineKeys
  readonly picture: PictureSource
  readonly mode: Mode
  /** null or absent: no sound, for as long as the pipeline lives. */
  readonly sound?: Sound | null
  /** A value of `codecs()`. */
  readonly codec: string
  readonly bitrateKbps: number
  /** Bits of wire-decisions "Grants", enforced by the engine on each input event. */
  readonly grants: number
  /** Whole UDP payload, 1200..1452. */
  readonly maxDatagramBytes: number
  /** 1000..120000. */
  readonly idleTimeoutMs: number
}

/** Counters since a pipeline was opened. */
export interface PipelineTotals {
  readonly frames_sent: number
  readonly frames_dropped: number
  readonly input_events: number
  readonly input_dropped: number
}

/** One session's pipeline. */
export interface Pipeline {
  /** Never rejects. */
  readonly ended: Promise<PipelineEnded>
  /** Milliseconds from open to the first video packet; never rejects, never resolves when there was none. */
  readonly streaming: Promise<number>
  requestKeyframe(): void
  setGrants(mask: number): void
  setBitrate(kbps: number): void
  resize(picture: PictureSource, mode: Mode, generation: number): Promise<void>
  /** Goes on with another source of sound; null: silence. Without sound from the start nothing happens. */
  setSound(source: SoundSource | null): Promise<void>
  /** The newest span of about 2 s, the same one for every caller; undefined before the first is over. */
  sample(): PipelineSample | undefined
  /** Since the pipeline was opened, up to now or to its end. */
  totals(): PipelineTotals
  close(): Promise<void>
}

/** The sample that statistics use (wire-decisions, "Stats sample and recording"), as the engine gives it. */
export interface PipelineSample {
  readonly span_ms: number
  readonly stages: readonly { readonly name: string; readonly p50_us: number; readonly p99_us: number }[]
  readonly frames_new: number
  readonly frames_repeated: number
  readonly frames_dropped: number
  readonly packets_sent: number
  readonly wire_bytes: number
  readonly payload_bytes: number
  readonly parity_packets: number
  readonly send_dropped: number
  readonly keyframes: number
  /** Frames that refer past what the client had lost, instead of a keyframe. */
  readonly recoveries: number
  readonly bitrate_kbps: number
  readonly datagram_bytes: number
  readonly loss_percent: number
  readonly parity_percent: number
  /** Rate at which what a frame has beyond 16 packets leaves. */
  readonly pace_kbps: number
  readonly packets_lost?: number
  readonly fec_recovered?: number
  readonly frames_lost?: number
  readonly rtt_us?: number
  readonly host_p50_us: number
  readonly host_p99_us: number
  readonly input_events: number
  readonly input_dropped: number
  /** Datagrams of sound, parity among them, and their bytes; these seven are absent without sound. */
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

/** The UDP side of one plane. */
export interface MediaPlane {
  readonly port: number
  open(config: PipelineConfig): Promise<Pipeline>
  stats(): { readonly received: number; readonly rejected: number }
  close(): Promise<void>
}

export interface MediaEngine {
  /** Codecs that can be encoded now, in the order of wire-decisions. */
  codecs(): Promise<readonly string[]>
  /** Opens a plane's socket on `address` (`::` is dual stack) and `port` (0 chooses one). */
  openPlane(config: { address: string; port: number }): Promise<MediaPlane>
  /**
   * Captures a source of sound before a pipeline asks for it, because a server may need seconds for its first samples.
   * A server that is not there yet is tried again. Resolves to the way to let go.
   */
  holdSound(source: SoundSource, channels: SoundChannels): Promise<() => Promise<void>>
}
export const MediaEngine = token<MediaEngine>('media.engine', '1.1.0')
