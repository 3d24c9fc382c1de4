// The plane's two sockets, UDP for media and TCP for control, on one port number.
import type { MediaEngine, MediaPlane } from 'svc-host/api/media'
import type { HostIdentity } from 'svc-host/sdk'
import { type Connection, type Listener, openListener } from './listener.ts'

export interface Sockets {
  readonly port: number
  readonly media: MediaPlane
  readonly listener: Listener
}

/** The codes of Node and of the engine. */
const isTaken = (error: unknown): boolean =>
  ['EADDRINUSE', 'port-in-use'].includes((error as { code?: string }).code ?? '')

const explain = (transport: 'TCP' | 'UDP', port: number, error: unknown): Error => {
  const cause = error instanceof Error ? error.message : String(error)
  const why = isTaken(error) ? 'is in use by another program' : `cannot be opened: ${cause}`
  return new Error(
    `${transport} port ${port} of the native plane ${why}; free it, or choose another with --native-port`,
    { cause: error },
  )
}

/** Opens both; a port of 0 takes one that is free for both. Rejects with a sentence, and nothing stays open. */
export const openSockets = async (
  engine: MediaEngine,
  identity: HostIdentity,
  port: number,
  serve: (connection: Connection, media: MediaPlane) => void,
): Promise<Sockets> => {
  for (let triesLeft = 10; ; triesLeft--) {
    const media = await engine.openPlane({ address: '::', port }).catch(error => {
      throw explain('UDP', port, error)
    })
    try {
      const listener = await openListener(identity, media.port, connection => serve(connection, media))
      return { port: media.port, media, listener }
    } catch (error) {
      await media.close()
      if (port !== 0 || !isTaken(error) || triesLeft === 0) throw explain('TCP', media.port, error)
    }
  }
}
