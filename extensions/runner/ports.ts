// Inside the walls, before anything else runs: ports of this process's own network that lead into the host's socket files.
import { existsSync } from 'node:fs'
import { connect, createServer } from 'node:net'

/** Where the host's API and the proxy to granted hosts are, for whoever is behind the walls. */
export const apiPort = 47990
export const proxyPort = 3128
export const socketFiles = { api: '/run/host/api.sock', proxy: '/run/host/proxy.sock' } as const

/** Holds nobody back from ending. */
function openPort(port: number, path: string): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, inner => {
    const outer = connect({ path, allowHalfOpen: true })
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      from.unref()
      from.on('error', () => to.destroy())
      from.on('close', () => to.destroySoon())
      from.pipe(to)
    }
  })
  server.unref()
  return new Promise((done, failed) => {
    // Another thread or process in here has opened it already.
    server.once('error', error =>
      (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? done() : failed(error),
    )
    server.listen(port, '127.0.0.1', done)
  })
}

for (const [port, path] of [
  [apiPort, socketFiles.api],
  [proxyPort, socketFiles.proxy],
] as const)
  if (existsSync(path)) await openPort(port, path)
