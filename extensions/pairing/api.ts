// Pairing's public face: who is paired with what access, the PIN window, devices that knock, and the events of it all.
import { event, token } from 'svc-host/sdk'
import { z } from 'zod'

/** A device in an event (wire-decisions, "Reference shapes"). */
const Device = z.object({ name: z.string(), fingerprint: z.string(), plane: z.enum(['native', 'compat']) })
const Access = z.object({ device: Device, grants: z.int(), expires_unix: z.int().optional() })

/** A device knocks that was not on the list of those that wait. */
export const pairingPending = event('pairing.pending', z.object({ device: Device }))
/** The operator said no; the device may knock again. */
export const pairingDenied = event('pairing.denied', z.object({ device: Device }))
/** A device was paired, by PIN or by approval. */
export const pairingCompleted = event('pairing.completed', z.object({ device: Device }))
/** The operator chose an access while pairing. */
export const accessGranted = event('access.granted', Access)
/** Access was edited later. */
export const accessChanged = event('access.changed', Access)
/** The end of a device's access came while it streamed. */
export const accessExpired = event('access.expired', z.object({ device: Device }))

/** A paired device whose access is not over. */
export interface PairedDevice {
  readonly name: string
  /** 64 lowercase hex characters. */
  readonly fingerprint: string
  /** Bits of wire-decisions "Grants", as they act: a stored null is full. */
  readonly grants: number
  readonly level: 'full' | 'controller' | 'view' | 'custom'
  /** Not paired: let in because the host is open. */
  readonly isGuest?: boolean
}

/** Who is paired on the native plane. */
export interface PairingRoster {
  /** Devices that are not paired may stream as well: `find` gives them as guests. */
  readonly isOpen: boolean
  /** The device, if it is paired and its access is not over. */
  find(fingerprint: string): PairedDevice | undefined
  /** Whether the device is paired, but its access is over. */
  isExpired(fingerprint: string): boolean
  /**
   * For as long as a device streams: tells each change of its access, and why it has none any more. Looking at the
   * end of an access happens once a second, by the host's clock. Returns the way to stop.
   */
  watch(fingerprint: string, listener: (now: PairedDevice | 'unpaired' | 'expired') => void): () => void
}
export const PairingRoster = token<PairingRoster>('pairing.roster', '1.1.0')

/** A device that wants to pair, as its connection has established it. */
export interface PairingRequest {
  /** Of the device's certificate, proven by TLS. */
  readonly fingerprint: string
  /** As the device calls itself; sanitized here. */
  readonly name: string
  /** Address that it comes from. */
  readonly address: string | undefined
  /** Of the certificate that this host showed. */
  readonly hostFingerprint: string
  /** Bytes that only this connection can have made (PROTOCOL.md of the native plane, section 2.2). */
  readonly sid: Uint8Array
  /** Ya of CPace as it came. */
  readonly share: Uint8Array
}

/** Why an exchange did not begin, or paired nothing; spelled as on the wire. */
export type PairingRefusal = {
  readonly refused:
    | 'no-window'
    | 'other-device'
    | 'outside-lan'
    | 'bad-share'
    | 'wrong-pin'
    | 'pace'
    | 'host-error'
  /** With `pace`: when to try again. */
  readonly retryAfterMs?: number
}

/** An exchange that has begun; its window is spent. */
export interface PairingExchange {
  /** Yb of CPace, to be sent. */
  readonly share: Uint8Array
  /** Checks the device's tag and stores the device; resolves to Tb, to be sent. Works once. */
  confirm(tag: Uint8Array): Promise<{ readonly tag: Uint8Array } | PairingRefusal>
  /** The device has gone or was too slow: the exchange pairs nothing. */
  abandon(): void
}

export interface PairingWindow {
  /** Says that a plane answers PIN exchanges; until then the window cannot be armed. Returns the way to take it back. */
  serve(): () => void
  begin(request: PairingRequest): PairingExchange | PairingRefusal
}
export const PairingWindow = token<PairingWindow>('pairing.window', '1.0.0')

/** A device that wants to be let in without a PIN, as its connection has established it. */
export interface Knock {
  /** Proven by the connection. */
  readonly fingerprint: string
  /** As the device calls itself; sanitized here. */
  readonly name: string
  /** Address that it comes from. */
  readonly address: string | undefined
}

/**
 * What became of a knock: `approved` (or paired by PIN, or given access, meanwhile), `denied` by the operator,
 * `replaced` by a later knock of the same device, `no-answer` in time, `stopping` with the last plane.
 */
export type KnockAnswer = 'approved' | 'denied' | 'replaced' | 'no-answer' | 'stopping'

/** A knock that waits for the operator; it keeps its place on the list while it does. */
export interface ParkedKnock {
  /** How long it may wait, milliseconds. */
  readonly limitMs: number
  /** Never rejects; stays open once the device has left. */
  readonly answer: Promise<KnockAnswer>
  /** The device waits no more. It stays on the list, where it can be approved for its next visit. */
  leave(): void
}

/**
 * Why a knock does not wait: `outside-lan` is listed, but can only be paired by a PIN that is bound to it; `full` is not
 * listed, since all who are wait for the operator; nor is `pace`, since too many came from its address.
 */
export type KnockRefusal =
  | { readonly refused: 'outside-lan' | 'full' | 'stopping' }
  | { readonly refused: 'pace'; readonly retryAfterMs: number }

export interface PairingQueue {
  /** Lists a device that is not paired, or whose access is over, and waits for the operator. */
  knock(knock: Knock): ParkedKnock | KnockRefusal
}
export const PairingQueue = token<PairingQueue>('pairing.queue', '1.0.0')
