// For tests of extensions: the real host in this process, with only the extensions named, on a free port.
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Found, Manifest, readExtension, type UndoKinds } from '../../kernel/discover.ts'
import { startHost as boot } from '../../kernel/index.ts'
import {
  type EventKind,
  type EventRecord,
  type Extension,
  type Extensions,
  ProcessRealm,
  type Token,
} from '../index.ts'
import { type FakeClock, installClock } from './clock.ts'

export type { FakeClock }

/** An extension written in the test itself; what the manifest leaves out has plain defaults. */
export interface InlineExtension {
  readonly manifest: { readonly id: string; readonly [key: string]: unknown }
  // biome-ignore lint/suspicious/noExplicitAny: any config and any services, as the author has them
  readonly extension: Extension<any, any>
  readonly undo?: UndoKinds
}

/** The id of a built-in, the path of a folder, or an extension written in place. */
export type TestExtension = string | InlineExtension

type Realm = 'kernel' | 'isolate' | 'process'

export interface TestHostOptions {
  readonly extensions: readonly TestExtension[]
  /** Config of an extension by its id, written to its config file. */
  readonly config?: Readonly<Record<string, object>>
  /** Runs those that are given as folders in this realm, whatever their manifests say. */
  readonly realm?: Realm
  /**
   * `fake`: the time and the timers of extensions stand still until `host.clock.advance`. Not for the process realm, and
   * one host of a process at a time.
   */
  readonly clock?: 'fake'
  /** Without it `startHost` rejects, with the reason, when one that is given as a folder is failed or waits. */
  readonly mayBeOff?: boolean
  readonly flags?: Readonly<Record<string, string | boolean>>
  readonly env?: Readonly<Record<string, string>>
  /** A config folder to keep; otherwise one of its own that `stop` removes. */
  readonly configDir?: string
}

export interface InjectOptions {
  /** Sent as JSON. */
  readonly body?: unknown
  /** Bearer; default the admin token, null: none. */
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** Certificate and key of a client. */
  readonly client?: { readonly certificatePem: string; readonly privateKeyPem: string }
  readonly signal?: AbortSignal
}

export interface Injected {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The parsed JSON; undefined when it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: the test knows what it asked for
  readonly json: any
}

export interface LogLine {
  readonly level: number
  readonly extension: string
  readonly msg: string
  readonly [field: string]: unknown
}

export interface TestHost {
  readonly configDir: string
  readonly port: number
  readonly adminToken: string
  readonly extensions: Extensions
  /** What the host and its extensions have logged, debug lines included. */
  readonly logs: readonly LogLine[]
  /** The fake clock; throws without `clock: 'fake'`. */
  readonly clock: FakeClock
  /** Every event since the start. */
  events(): readonly EventRecord[]
  emit<P extends object>(kind: EventKind<P>, payload: P): EventRecord
  service<T>(token: Token<T>): T | undefined
  /** Sends a real HTTPS request; `path` is relative to `/api/v1`, or absolute with a leading double slash. */
  inject(method: string, path: string, options?: InjectOptions): Promise<Injected>
  /** Likewise, for an answer that is read piece by piece. */
  open(method: string, path: string, options?: InjectOptions): Promise<IncomingMessage>
  stop(): Promise<void>
}

/** Waits until `check` gives something other than undefined, null or false; rejects after `limitMs`. */
export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  limitMs = 5000,
): Promise<Exclude<T, undefined | null | false>> {
  const end = performance.now() + limitMs
  for (;;) {
    const value = await check()
    if (value !== undefined && value !== null && value !== false)
      return value as Exclude<T, undefined | null | false>
    if (performance.now() > end) throw new Error(`waited ${limitMs} ms in vain for ${what}`)
    await delay(10)
  }
}

const builtins = fileURLToPath(new URL('../../extensions/', import.meta.url))

const inline = ({ manifest, extension, undo }: InlineExtension): Found => ({
  id: manifest.id,
  folder: dirname(builtins),
  builtin: true,
  manifest: Manifest.parse({
    version: '1.0.0',
    sdk: '^1.0.0',
    title: manifest.id,
    realm: 'kernel',
    ...manifest,
  }),
  load: async () => extension,
  ...(undo && { loadUndo: async () => undo }),
})

const find = async (each: TestExtension, realm?: Realm): Promise<Found> => {
  if (typeof each !== 'string') return inline(each)
  const isOwn = isPath(each)
  const folder = isOwn ? resolve(each) : join(builtins, each)
  const found = await readExtension(folder, isOwn ? undefined : each, true)
  return realm && isOwn && found.manifest ? { ...found, manifest: { ...found.manifest, realm } } : found
}

/** Those asked for, and whoever starts processes where one of them runs in one. */
async function findAll({ extensions, realm }: TestHostOptions): Promise<Found[]> {
  const found = await Promise.all(extensions.map(each => find(each, realm)))
  const isServed = found.some(({ manifest }) => manifest?.provides[ProcessRealm.id] !== undefined)
  const isNeeded = !isServed && found.some(({ manifest }) => manifest?.realm === 'process')
  return isNeeded ? [await find('runner'), ...found] : found
}

const isPath = (each: TestExtension): each is string => typeof each === 'string' && /[./]/.test(each)

/** Throws for those of the test's own folders that did not come up, which would only show as 404 later. */
function expectOn(given: readonly TestExtension[], found: readonly Found[], { list }: Extensions): void {
  const folders = new Set(given.filter(isPath).map(each => resolve(each)))
  const own = new Set(found.filter(({ folder }) => folders.has(folder)).map(({ id }) => id))
  const off = list().filter(({ id, enabled, state }) => enabled && own.has(id) && state !== 'on')
  if (off.length === 0) return
  const whys = off.map(({ id, state, why }) => `${id} is ${state}: ${why}`)
  throw new Error(`${whys.join('; ')}. (mayBeOff: true starts the host all the same)`)
}

/** Boots a host; `stop` it in the test's end. `startHost(['.'])` is enough for an extension in the current folder. */
export async function startHost(
  given: TestHostOptions | readonly TestExtension[],
  rest: Omit<TestHostOptions, 'extensions'> = {},
): Promise<TestHost> {
  const options = 'extensions' in given ? given : { ...rest, extensions: given }
  const logs: LogLine[] = []
  const found = await findAll(options)
  if (options.clock && found.some(({ manifest }) => manifest?.realm === 'process'))
    throw new Error("clock: 'fake' does not reach the process realm; leave it out, or test in another realm")
  const configDir = options.configDir ?? (await mkdtemp(join(tmpdir(), 'svc-host-test-')))
  const clear = async (): Promise<void> => {
    if (!options.configDir) await rm(configDir, { recursive: true, force: true })
  }
  await mkdir(join(configDir, 'extension-config'), { recursive: true })
  for (const [id, config] of Object.entries(options.config ?? {})) {
    await writeFile(join(configDir, 'extension-config', `${id}.json`), JSON.stringify(config))
  }
  const clock = options.clock && installClock()
  const host = await boot({
    configDir,
    clock,
    flags: { 'mgmt-bind': '127.0.0.1:0', ...options.flags },
    env: { SVC_LOG: 'debug', ...options.env },
    found,
    sink: { write: line => void logs.push(JSON.parse(line)) },
    isEmbedded: true,
  }).catch(async error => {
    clock?.remove()
    await clear()
    throw error
  })
  const { front, adminToken, identity } = host
  const stop = async (): Promise<void> => {
    await host.stop().finally(() => clock?.remove())
    await clear()
  }
  try {
    if (!options.mayBeOff) expectOn(options.extensions, found, host.extensions)
  } catch (error) {
    await stop()
    throw error
  }

  const open = async (method: string, path: string, given: InjectOptions = {}): Promise<IncomingMessage> => {
    const { body, token = adminToken, headers, client, signal } = given
    const outgoing = request({
      method,
      host: '127.0.0.1',
      port: front.port,
      path: path.startsWith('//') ? path.slice(1) : `/api/v1${path}`,
      agent: false,
      ca: identity.certificatePem,
      checkServerIdentity: () => undefined,
      ...(client && { cert: client.certificatePem, key: client.privateKeyPem }),
      signal,
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    })
    outgoing.end(body === undefined ? undefined : JSON.stringify(body))
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage]
    return answer
  }

  return {
    configDir,
    port: front.port,
    adminToken,
    extensions: host.extensions,
    logs,
    get clock() {
      if (!clock) throw new Error("this host has the real clock; start it with clock: 'fake'")
      return clock
    },
    events: () => host.bus.replay(0).events,
    emit: (kind, payload) => host.bus.emit(kind, payload),
    service: token => host.services.get(token),
    open,
    async inject(method, path, given) {
      const answer = await open(method, path, given)
      const body = await text(answer)
      const isJson = answer.headers['content-type']?.includes('json') && body !== ''
      return {
        status: answer.statusCode!,
        headers: answer.headers,
        text: body,
        json: isJson ? JSON.parse(body) : undefined,
      }
    },
    stop,
  }
}
