// The sound servers by display: begun with its room, ended before its folders go, found by those who stream it.
import type { DisplayRoom } from 'svc-host/api/displays'
import type { MediaEngine } from 'svc-host/api/media'
import type { Log, Scope } from 'svc-host/sdk'
import type { SessionSound } from './api.ts'
import { type SoundServer, startSoundServer } from './server.ts'

export interface Sounds extends SessionSound {
  /** Starts the display's sound server; resolves to what its programs need in their environment. Never rejects. */
  begin(room: DisplayRoom): Promise<Readonly<Record<string, string>>>
  /** Ends it; resolves when nothing is left of it. */
  end(slot: number): Promise<void>
}

export function createSounds(scope: Scope, engine: MediaEngine, log: Log): Sounds {
  const servers = new Map<number, Promise<SoundServer | undefined>>()

  const start = (room: DisplayRoom): Promise<SoundServer | undefined> =>
    startSoundServer(scope, room, engine, log).catch(error => {
      if (!scope.signal.aborted) log.error(`${room.name} has no sound`, { err: error })
      return undefined
    })

  return {
    begin: async room => {
      const server = servers.get(room.slot) ?? start(room)
      servers.set(room.slot, server)
      return (await server)?.env ?? {}
    },
    end: async slot => {
      const server = servers.get(slot)
      servers.delete(slot)
      await (await server)?.close()
    },
    open: async ({ slot, picture }, channels) => {
      // The generated picture has a generated sound, and no programs.
      if (picture.kind === 'test') return { kind: 'tone' }
      return (await servers.get(slot))?.open(channels)
    },
  }
}
