// The native plane put together: sockets, sessions and conversations, and the orderly way down.
import { setImmediate } from 'node:timers/promises'
import type { MediaEngine } from 'svc-host/api/media'
import type { PairingQueue, PairingWindow } from 'svc-host/api/pairing'
import type { HostIdentity } from 'svc-host/sdk'
import { converse } from './conversation.ts'
import { createPlane, type Plane, type PlaneParts } from './plane.ts'
import { openSockets } from './sockets.ts'

export interface NativeServiceParts extends Omit<PlaneParts, 'media'> {
  readonly engine: MediaEngine
  readonly pairing: PairingWindow
  readonly queue: PairingQueue
  readonly identity: HostIdentity
  /** Asked at each welcome. */
  readonly host: () => { readonly name: string; readonly id: string; readonly version: string }
  /** 0 chooses one. */
  readonly port: number
}

export interface NativeService {
  readonly port: number
  /** Ends all sessions with a `close`; the sockets stay, and refuse. */
  endSessions(): Promise<void>
  /** Ends all sessions with a `close`, then the sockets. */
  close(): Promise<void>
}

/** Rejects with a sentence when a socket cannot be opened. */
export const openNativeService = async (parts: NativeServiceParts): Promise<NativeService> => {
  const { identity, pairing, queue, roster, log } = parts
  let plane: Plane | undefined

  const { port, media, listener } = await openSockets(
    parts.engine,
    identity,
    parts.port,
    ({ channel, admitted }, openedMedia) => {
      plane ??= createPlane({ ...parts, media: openedMedia })
      const isPaired = (fingerprint: string): boolean => roster.find(fingerprint) !== undefined
      void converse(channel, {
        plane,
        pairing,
        queue,
        isPaired,
        host: { ...parts.host(), fingerprint: identity.fingerprint },
        log,
        onAdmitted: admitted,
      })
    },
  )
  const stopServing = pairing.serve()
  const endSessions = async (): Promise<void> => plane?.close()

  return {
    port,
    endSessions,
    close: async () => {
      stopServing()
      await endSessions()
      // By the next turn those who waited for the operator have been told.
      await setImmediate()
      await listener.close()
      await media.close()
    },
  }
}
