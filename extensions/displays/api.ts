// Virtual displays: who asks for one, and who makes them.
import type { Mode, PictureSource } from 'svc-host/api/media'
import { event, hook, token } from 'svc-host/sdk'
import { z } from 'zod'

/** A virtual display was made. */
export const displayCreated = event('display.created', z.object({ backend: z.string(), mode: z.string() }))
/** Kept displays were retired. */
export const displayReleased = event('display.released', z.object({ count: z.int() }))

/** Where the programs of one display live. */
export interface DisplayRoom {
  readonly slot: number
  /** For logs. */
  readonly name: string
  /** Environment of every program that will run on it: HOME, XDG_RUNTIME_DIR and what taps add. */
  readonly env: Readonly<Record<string, string>>
  /** All that those programs see of the host's folders (`ProcessSpec.folders`). */
  readonly folders: readonly string[]
}
/** A display is being made: each tap may start what belongs to it, and add to the environment of its programs. */
export const displayPrepare = hook.waterfall<DisplayRoom>('display.prepare', {
  onFailure: 'skip',
  limitMs: 8000,
})
/** Its programs have ended and its folders are about to go: taps end what they started for it. */
export const displayClear = hook.series<DisplayRoom>('display.clear', { onFailure: 'skip', limitMs: 8000 })

/** What a backend gets for the room that it has told of. */
export interface PreparedRoom {
  readonly env: Readonly<Record<string, string>>
  /** To be called once its programs have ended, before its folders go; idempotent, never rejects. */
  clear(): Promise<void>
}

/** What a plane wants a display for. */
export interface DisplayRequest {
  readonly mode: Mode
  readonly plane: 'native' | 'compat'
  /** Fingerprint of the client, or null for an unidentified one. */
  readonly fingerprint: string | null
  /** As in a session row: 16 hex characters of the fingerprint, or the address. */
  readonly client: string
}

/** The policy gives this host to one client at a time, and another one has it. */
export class DisplaysBusy extends Error {}

/** A reference to a display; the display stays at least until it is released. */
export interface DisplayLease {
  readonly slot: number
  readonly backend: string
  readonly mode: Mode
  readonly picture: PictureSource
  /** True: others used the display when this reference was taken, and the mode was theirs. */
  readonly isJoined: boolean
  /** True while others hold the display as well: its mode cannot be changed. */
  readonly isShared: boolean
  /** Resolves when the display has died under the lease; never rejects. */
  readonly lost: Promise<void>
  /** Resolves when another client takes the host over by the policy: the session is to end. Never rejects. */
  readonly taken: Promise<void>
  /** Changes the mode of the display; resolves to the picture to go on with. Rejects with a sentence where it cannot. */
  resize(mode: Mode): Promise<PictureSource>
  /**
   * Gives the reference back; idempotent. `deliberate`: the client quit, so nothing lingers unless pinned.
   * `failed`: the display showed no first frame; it is torn down and never used again.
   */
  release(options: { deliberate: boolean; failed?: boolean }): Promise<void>
}

/** A display that a backend has made. */
export interface BackendDisplay {
  readonly picture: PictureSource
  readonly lost: Promise<void>
  /** Changes the mode; rejects with a sentence where it cannot, and the old mode stays. */
  resize(mode: Mode): Promise<PictureSource>
  /** Whether it still answers; asked before a kept display is used again. */
  alive(): Promise<boolean>
  /** Removes the display and all that runs on it; idempotent. */
  close(): Promise<void>
}

export interface BackendRequest extends DisplayRequest {
  readonly slot: number
  /** Tells others of the room of the display's programs, before the first of these runs; never rejects. */
  prepare(room: Omit<DisplayRoom, 'slot'>): Promise<PreparedRoom>
}

/** One way to make displays. */
export interface DisplayBackend {
  /** Wire spelling of `backend` in `/display/state`. */
  readonly id: string
  readonly label: string
  /** False: displays of this backend are passed through, neither pooled nor listed. */
  readonly owned: boolean
  /** Order among the backends when the settings name none: higher first; null: only ever taken by name. */
  readonly preference: number | null
  /** True when it can make displays on this machine now; a sentence says why not. */
  available(): Promise<true | string>
  /** Rises when the desktop behind the backend is another one, so that displays kept from before are not used again. */
  epoch?(): number
  /** Makes a display at the request's mode. Rejects with a sentence; nothing is left behind then. */
  create(request: BackendRequest): Promise<BackendDisplay>
}

export interface DisplayPool {
  /**
   * A display: at the client's mode, or the live one that the policy lets it join. Rejects with `DisplaysBusy` where
   * the policy refuses it, and with a sentence when there is no backend or it cannot.
   */
  acquire(request: DisplayRequest): Promise<DisplayLease>
  /** Offers a backend; the function returned takes it away, with its displays. */
  register(backend: DisplayBackend): () => Promise<void>
  /** Rooms of the displays that are there now, for those who come later than `display.prepare`. */
  rooms(): readonly DisplayRoom[]
  /** Lingering or pinned displays without a session. */
  kept(): Promise<number>
}
export const DisplayPool = token<DisplayPool>('display.pool', '1.1.0')
