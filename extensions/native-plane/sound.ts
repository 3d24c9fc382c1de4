// Sound of this plane's sessions: what a client gets of its wish, and the service that may come and go meanwhile.
import type { SoundChannels } from 'svc-host/api/media'
import { SessionSound } from 'svc-host/api/sound'
import type { Scope } from 'svc-host/sdk'
import type { Start } from './messages.ts'

/** What a client that wants sound gets. */
export interface SoundTerms {
  readonly channels: SoundChannels
  readonly frameMs: 5 | 10
}

/** The service, if there is one now. */
export interface SoundAccess {
  readonly now: SessionSound | undefined
  /** Calls `listener` at each change; returns the way to stop it. */
  watch(listener: () => void): () => void
}

/** The most channels that the client can play, and the shortest packets that it asks for or longer ones. */
export const agreeSound = (wish: Start['audio']): SoundTerms | null => {
  if (!wish || wish.channels < 1) return null
  return {
    channels: wish.channels >= 8 ? 8 : wish.channels >= 6 ? 6 : 2,
    frameMs: wish.frame_ms > 5 ? 10 : 5,
  }
}

/** Silence, for as long as it lasts. */
export const noSound: SoundAccess = { now: undefined, watch: () => () => {} }

export const followSound = (scope: Scope): SoundAccess => {
  const listeners = new Set<() => void>()
  let service: SessionSound | undefined
  const set = (next: SessionSound | undefined): void => {
    service = next
    for (const listener of listeners) listener()
  }
  scope.using(SessionSound, (given, sub) => {
    set(given)
    sub.signal.addEventListener('abort', () => set(undefined))
  })
  return {
    get now() {
      return service
    },
    watch: listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
