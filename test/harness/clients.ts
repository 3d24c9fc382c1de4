// Streaming clients inside the test, each a device of its own that the host knows, and what the host tells about them.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openApi } from 'svc-host/client'
import {
  connect,
  type Identity,
  loadIdentity,
  type Mode,
  type StartOptions,
  type StreamSession,
  type VideoFrame,
} from '../../sdk/stream/index.ts'
import { fingerprintOf, type HostProcess, until } from './host.ts'

/** Makes devices and puts them into the roster of a config folder whose host does not run yet. */
export async function makeDevices(
  configDir: string,
  folder: string,
  names: readonly string[],
): Promise<Identity[]> {
  const identities = await Promise.all(names.map(name => loadIdentity(join(folder, name))))
  const clients = identities.map(({ fingerprint }, i) => ({ name: names[i], fingerprint }))
  mkdirSync(configDir, { recursive: true, mode: 0o700 })
  writeFileSync(join(configDir, 'native-paired.json'), JSON.stringify({ version: 1, clients }))
  return identities
}

export interface Client {
  readonly session: StreamSession
  /** As rows and events call it. */
  readonly id: string
  /** Frames so far. */
  frames(): number
  /** The newest frame so far. */
  newest(): VideoFrame | undefined
  /** The coded pictures from the newest keyframe on: enough to decode the newest one. */
  picture(): Buffer
  /** Resolves when so many more frames have come. */
  more(count: number, limitMs?: number): Promise<void>
}

export interface WatchOptions extends Partial<StartOptions> {
  /** Control port, where it is not the host's own. */
  readonly port?: number
}

/** Streams, and looks at every frame. Resolves with the first one. */
export async function watch(
  host: HostProcess,
  identity: Identity,
  mode: Mode,
  { port = host.nativePort, ...options }: WatchOptions = {},
): Promise<Client> {
  const connection = await connect({
    host: '127.0.0.1',
    port,
    identity,
    name: 'test',
    intent: 'stream',
    expectFingerprint: fingerprintOf(readFileSync(join(host.configDir, 'native-cert.pem'), 'utf8')),
  })
  const session = await connection.start({ mode, ...options })
  let count = 0
  let newest: VideoFrame | undefined
  let since: Uint8Array[] = []
  const look = async (): Promise<void> => {
    for await (const frame of session.frames) {
      count++
      newest = frame
      if (frame.isKeyframe) since = []
      since.push(frame.data)
    }
  }
  void look()
  const client: Client = {
    session,
    id: identity.fingerprint.slice(0, 16),
    frames: () => count,
    newest: () => newest,
    picture: () => Buffer.concat(since),
    async more(wanted, limitMs) {
      const end = count + wanted
      await until(`${wanted} more frames`, () => count >= end, limitMs)
    },
  }
  await client.more(1)
  return client
}

export interface Happened {
  /** All events so far, oldest first. */
  readonly events: any[]
  /** Those of clients, sessions and streams after `mark` about one client, as `kind` or `kind value`. */
  of(client: string, mark?: number): string[]
  stop(): void
}

/** Keeps all events of the host. Resolves once it follows. */
export async function follow(host: HostProcess): Promise<Happened> {
  const stop = new AbortController()
  const api = openApi({
    url: `https://127.0.0.1:${host.mgmtPort}`,
    token: readFileSync(join(host.configDir, 'mgmt-token'), 'utf8').trim().split('=').at(-1)!,
    certificatePem: readFileSync(join(host.configDir, 'native-cert.pem'), 'utf8'),
  })
  const events: any[] = []
  const live = Promise.withResolvers<void>()
  const read = async (): Promise<void> => {
    for await (const { event, data } of api.events({ signal: stop.signal })) {
      if (event === 'live') live.resolve()
      else events.push(data)
    }
  }
  read().then(
    () => live.resolve(),
    error => (stop.signal.aborted ? live.resolve() : live.reject(error)),
  )
  await live.promise
  const whose = ({ client, session, stream }: any): string | undefined =>
    session?.client ?? stream?.client ?? client?.fingerprint?.slice(0, 16)
  return {
    events,
    of: (client, mark = 0) =>
      events
        .slice(mark)
        .filter(event => whose(event) === client)
        .map(({ kind, summary, reason }) => [kind, summary?.ended ?? reason].filter(Boolean).join(' ')),
    stop: () => stop.abort(),
  }
}
