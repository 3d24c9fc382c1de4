// The media engine's typed face: small handles, control plane only. Frames, packets and input never enter JavaScript.

/** Version of the interface between this face and the addon; a mismatch is refused at load with a sentence. */
export const abi = 1

/** Why a handle came to its end; loss of a device or peer is an ending, not an exception. */
export type Ended = 'stopped' | 'source-lost' | 'encoder-failed' | 'peer-gone' | 'peer-bye'

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
  readonly width: number
  readonly height: number
  /** Never rejects. */
  readonly ended: Promise<Ended>
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
  readonly mode: Mode
  readonly codec: 'h264'
  readonly bitrateKbps: number
  /** Bits of wire-decisions "Grants", enforced on each input event. */
  readonly grants: number
  /** Whole UDP payload, 1200..1452. */
  readonly maxDatagramBytes: number
  /** 1000..120000. */
  readonly idleTimeoutMs: number
  /** Parity shards per hundred data shards, 0..100. */
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
  readonly bitrate_kbps: number
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
}

export declare function openSource(config: SourceConfig): Promise<Source>
export declare function openInputSink(config: InputSinkConfig): Promise<InputSink>
export declare function openPlane(config: PlaneConfig): Promise<Plane>
/** Codecs that the encoders probed here can do, in the order of wire-decisions. */
export declare function codecs(): readonly string[]
