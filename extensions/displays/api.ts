// Virtual displays: who asks for one, and who makes them.
import type { Mode, PictureSource } from 'svc-host/api/media'
import { event, token } from 'svc-host/sdk'
import { z } from 'zod'

/** A virtual display was made. */
export const displayCreated = event('display.created', z.object({ backend: z.string(), mode: z.string() }))
/** Kept displays were retired. */
export const displayReleased = event('display.released', z.object({ count: z.int() }))

/** What a plane wants a display for. */
export interface DisplayRequest {
  readonly mode: Mode
  readonly plane: 'native' | 'compat'
  /** Fingerprint of the client, or null for an unidentified one. */
  readonly fingerprint: string | null
  /** As in a session row: 16 hex characters of the fingerprint, or the address. */
  readonly client: string
}

/** A reference to a display; the display stays at least until it is released. */
export interface DisplayLease {
  readonly slot: number
  readonly backend: string
  readonly mode: Mode
  readonly picture: PictureSource
  /** Resolves when the display has died under the lease; never rejects. */
  readonly lost: Promise<void>
  /** Changes the mode of the display; resolves to the picture to go on with. Rejects with a sentence where it cannot. */
  resize(mode: Mode): Promise<PictureSource>
  /** Gives the reference back; idempotent. `deliberate`: the client quit, so nothing lingers unless pinned. */
  release(options: { deliberate: boolean }): Promise<void>
}

/** A display that a backend has made. */
export interface BackendDisplay {
  readonly picture: PictureSource
  readonly lost: Promise<void>
  resize(mode: Mode): Promise<PictureSource>
  /** Removes the display and all that runs on it; idempotent. */
  close(): Promise<void>
}

/** One way to make displays. */
export interface DisplayBackend {
  /** Wire spelling of `backend` in `/display/state`. */
  readonly id: string
  readonly label: string
  /** False: displays of this backend are passed through, neither pooled nor listed. */
  readonly owned: boolean
  /** True when it can make displays on this machine now; a sentence says why not. */
  available(): Promise<true | string>
  /** Largest first; asked for once a display is wanted. Rejects with a sentence; nothing is left behind then. */
  create(request: DisplayRequest & { slot: number }): Promise<BackendDisplay>
}

export interface DisplayPool {
  /** A display at the client's mode. Rejects with a sentence when there is no backend or it cannot. */
  acquire(request: DisplayRequest): Promise<DisplayLease>
  /** Offers a backend; the function returned takes it away, with its displays. */
  register(backend: DisplayBackend): () => Promise<void>
  /** Lingering or pinned displays without a session. */
  kept(): Promise<number>
}
export const DisplayPool = token<DisplayPool>('display.pool', '1.0.0')
