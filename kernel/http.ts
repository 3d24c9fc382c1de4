// The front: publishes the live routes as generations behind one listener, and knows what each owner has open.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { ApiRoutes, DeviceRegistry, HostIdentity, PluginTokens, Route } from 'svc-host/sdk'
import { checkOrigin, greetPage } from './browsers.ts'
import { type Call, createCalls, insideCaller } from './calls.ts'
import type { ExtensionError } from './errors.ts'
import { type Generation, urlOf } from './generation.ts'
import { fingerprintOf } from './identity.ts'
import { authorize, type Peer } from './lanes.ts'
import { type BindAddress, isLoopback, type Listener, openListener } from './listener.ts'
import { buildGeneration } from './sift.ts'
import { Tally } from './tally.ts'
import { createTurns } from './turns.ts'

/** A route with the extension it belongs to. */
export interface OwnedRoute {
  readonly owner: string
  readonly route: Route
  /** Aborted when the owner stops. */
  readonly signal: AbortSignal
}

export interface FrontOptions {
  readonly bind: BindAddress
  readonly identity: HostIdentity
  readonly adminToken: string
  /** The services behind the device and the plugin lane, looked up on each call; none: that lane admits nobody. */
  readonly devices?: () => DeviceRegistry | undefined
  readonly plugins?: () => PluginTokens | undefined
  /** Origins of browsers that may call from elsewhere. */
  readonly origins?: readonly string[]
  /** Whether an extension has a permission; undefined: it is none whose calls are checked. */
  readonly may?: (id: string, permission: string) => boolean | undefined
  /** Told of each mistake of an owner: a throw that is no declared refusal, or an answer that does not fit. */
  report(owner: string, during: string, error: unknown): void
}

export interface Front {
  /** Makes exactly these routes live, all or nothing per owner; resolves to why owners were left out. */
  publish(routes: readonly OwnedRoute[]): Promise<ExtensionError[]>
  /** Calls the API as an extension; rejects with its refusals. */
  readonly call: Call
  /** Waits until nothing of this owner is open; cuts the rest after `graceMs`. */
  drain(owner: string, graceMs: number): Promise<void>
  /** What is live, with full paths. */
  routes: ApiRoutes['list']
  /** Opens the sockets; rejects with a sentence that names the address. */
  listen(): Promise<void>
  /** Stops accepting, lets open answers finish for `graceMs` (default 1000), then cuts them. */
  close(graceMs?: number): Promise<void>
  /** Port of the API; 0 before `listen`. */
  readonly port: number
}

export function createFront(options: FrontOptions): Front {
  const { origins = [] } = options
  const owners = new Map<string, Tally>()
  const everything = new Tally()
  let live: Generation | undefined
  let published: ReturnType<ApiRoutes['list']> = []
  let listener: Listener | undefined
  const inTurn = createTurns()

  /** Counts an exchange in each tally until its response or its socket has closed, whichever is first. */
  const hold = (socket: Duplex, response: ServerResponse | undefined, tallies: readonly Tally[]): void => {
    // A request from inside has no socket to destroy.
    const cut = (): void => void ('destroy' in socket ? socket : response)?.destroy()
    const releases = tallies.map(tally => tally.add(cut))
    const release = (): void => {
      socket.off('close', release)
      for (const each of releases) each()
    }
    socket.once('close', release)
    response?.once('close', release)
    if (socket.destroyed) release()
  }

  const gate = {
    report: options.report,
    hold: (owner: string, request: IncomingMessage, response?: ServerResponse): void => {
      const tally = owners.get(owner) ?? new Tally()
      owners.set(owner, tally)
      hold(request.socket, response, [tally])
    },
    authorize: (request: IncomingMessage, route: Route, params: Record<string, string>) => {
      checkOrigin(request, origins)
      const bearer = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
      const extension = 'encrypted' in request.socket ? undefined : insideCaller()
      const source =
        extension === undefined ? { peer: peerOf(request.socket as TLSSocket), bearer } : { extension }
      return authorize(route, source, params['id'] ?? params['provider'], {
        adminToken: options.adminToken,
        devices: options.devices?.(),
        plugins: options.plugins?.(),
        may: options.may ?? (() => undefined),
      })
    },
  }

  const swap = async (routes: readonly OwnedRoute[]): Promise<ExtensionError[]> => {
    const { generation, sound, leftOut } = await buildGeneration(routes, gate)
    const old = live
    live = generation
    published = sound.map(({ owner, route }) => ({ owner, url: urlOf(route), route }))
    void old?.retire()
    await new Promise(done => setImmediate(done))
    return leftOut
  }

  return {
    call: createCalls(() => live, everything),
    publish: routes => inTurn(() => swap(routes)),
    drain: async (owner, graceMs) => {
      await owners.get(owner)?.drained(graceMs)
      if (owners.get(owner)?.size === 0) owners.delete(owner)
    },
    routes: () => published,
    listen: async () => {
      listener = await openListener(options.bind, options.identity, {
        request: (request, response) => {
          if (!live) return void response.writeHead(503, jsonType).end('{"error":"the host is starting"}')
          if (greetPage(request, response, origins)) return
          hold(request.socket, response, [live.open, everything])
          live.handle(request, response)
        },
        upgrade: (request, socket, head) => {
          if (!live) return void socket.destroy()
          hold(socket, undefined, [live.open, everything])
          live.upgrade(request, socket, head)
        },
      })
    },
    close: async (graceMs = 1000) => {
      const closed = listener?.close()
      await everything.drained(graceMs)
      listener?.destroy()
      await closed
      await inTurn(() => live?.retire())
      live = undefined
      listener = undefined
    },
    get port() {
      return listener?.port ?? 0
    },
  }
}

const jsonType = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }

/** IPv4 addresses mapped into IPv6 count as IPv4. */
const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '')
const certificates = new WeakMap<TLSSocket, string | null>()

function peerOf(socket: TLSSocket): Peer {
  let fingerprint = certificates.get(socket)
  if (fingerprint === undefined) {
    const certificate = socket.getPeerX509Certificate()
    fingerprint = certificate ? fingerprintOf(certificate) : null
    certificates.set(socket, fingerprint)
  }
  const address = plainAddress(socket.remoteAddress ?? '')
  return { address, loopback: isLoopback(address), fingerprint }
}
