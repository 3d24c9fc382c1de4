// A socket file that leads to one place only: how a process without a network of its own reaches the API of its host.
import { chmod, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** Connections at once through one socket file. */
const connectionLimit = 64

export interface Place {
  readonly host: string
  readonly port: number
}

/** An open socket file; `close` ends what goes through it and removes it. */
export interface SocketFile {
  readonly path: string
  close(): Promise<void>
}

/**
 * Listens on `path`, whose folder must be closed to everybody else: whoever gets at the file may connect. Every
 * connection leads to where `place` says at that moment; it is cut when that rejects.
 */
export function openForward(path: string, place: () => Promise<Place>): Promise<SocketFile> {
  const server = createServer({ allowHalfOpen: true }, async inner => {
    inner.on('error', () => inner.destroy())
    try {
      const outer = connect({ ...(await place()), allowHalfOpen: true })
      if (inner.destroyed) outer.destroy()
      join(inner, outer)
    } catch {
      inner.destroy()
    }
  })
  return listenOn(server, path)
}

/** Bytes both ways; the end of one direction is told, and a break of either side ends both. */
export function join(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroySoon())
    from.pipe(to)
  }
}

export async function listenOn(server: Server, path: string): Promise<SocketFile> {
  const open = new Set<Socket>()
  server.maxConnections = connectionLimit
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  // The process behind its walls may have another account.
  await chmod(path, 0o666)
  return {
    path,
    async close() {
      const closed = new Promise(done => server.close(done))
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}
