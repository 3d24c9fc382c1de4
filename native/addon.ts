// Loads the compiled engine and passes on what it reports; the only file that sees the addon itself.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type {
  AudioSourceConfig,
  InputSinkConfig,
  Mode,
  PlaneConfig,
  Sample,
  SessionConfig,
  SourceConfig,
} from './index.ts'

/** Version of the interface between this face and the addon; a mismatch is refused at load with a sentence. */
export const abi = 2

/** Why a handle came to its end; loss of a device or peer is an ending, not an exception. */
export type Ended = 'stopped' | 'source-lost' | 'encoder-failed' | 'peer-gone' | 'peer-bye'

/** In the order of the engine's own numbers, which begin with 1. */
const reasons: readonly Ended[] = ['stopped', 'source-lost', 'encoder-failed', 'peer-gone', 'peer-bye']

/** What the addon offers: handles are numbers that this side gives out. */
interface Addon {
  readonly abi: number
  start(report: (id: number, isEnding: boolean, value: number) => void): void
  codecs(): string[]
  openSource(id: number, config: SourceConfig): Promise<void>
  closeSource(id: number): Promise<void>
  sourceSize(id: number): [number, number] | undefined
  openAudioSource(id: number, config: AudioSourceConfig): Promise<void>
  closeAudioSource(id: number): Promise<void>
  openInputSink(id: number, config: InputSinkConfig): Promise<void>
  closeInputSink(id: number): Promise<void>
  openPlane(id: number, config: PlaneConfig): Promise<void>
  closePlane(id: number): Promise<void>
  planeStats(id: number): { port: number; received: number; rejected: number } | undefined
  openSession(
    id: number,
    config: Omit<SessionConfig, 'source' | 'inputSink' | 'audioSource'> & {
      plane: number
      source: number
      inputSink: number
      audioSource: number
    },
  ): Promise<void>
  closeSession(id: number): Promise<void>
  resize(id: number, source: number, mode: Mode, generation: number): Promise<void>
  requestKeyframe(id: number): void
  setGrants(id: number, mask: number): void
  setBitrate(id: number, kbps: number): void
  /** 0: silence. */
  setAudioSource(id: number, source: number): void
  sample(id: number): Sample | undefined
}

/** What the engine tells about a handle: that it ended, or that its first packet was sent. */
export type Report =
  | { readonly ended: Ended; readonly streamingMs?: never }
  | { readonly ended?: never; readonly streamingMs: number }

const listeners = new Map<number, (report: Report) => void>()
let lastNumber = 0

/** A number for a new handle. */
export function engineNumber(): number {
  lastNumber += 1
  return lastNumber
}

/** Hears about one handle until the returned function is called; to be called before the handle is opened. */
export function onReport(id: number, listen: (report: Report) => void): () => void {
  listeners.set(id, listen)
  return () => listeners.delete(id)
}

/** Sources in a checkout and compiled files in a package lie at different depths; native/build/ belongs to their root. */
function packageRoot(): string {
  for (let at = import.meta.dirname; dirname(at) !== at; at = dirname(at)) {
    if (existsSync(join(at, 'package.json'))) return at
  }
  throw new Error(`${import.meta.dirname} is in no package, so the media engine cannot be found`)
}

const remedy = 'run "svc-host setup" (in a checkout "npm start" does it)'

function load(): Addon {
  const require = createRequire(import.meta.url)
  // A sanitizer build is asked for by name, such as `engine-address`.
  const flavour = process.env['SVC_ENGINE'] ?? 'engine'
  const root = packageRoot()
  const { engineFolders } = require(join(root, 'native/cache.mjs')) as {
    engineFolders(root: string): string[]
  }
  const builds = engineFolders(root).find(folder => existsSync(join(folder, `${flavour}.json`)))
  if (!builds) throw new Error(`the media engine is not built; ${remedy}`)
  const { key } = JSON.parse(readFileSync(join(builds, `${flavour}.json`), 'utf8')) as { key: string }
  // Read by the sound client whenever it connects.
  process.env['PULSE_CLIENTCONFIG'] = join(root, 'native/pulse-client.conf')
  const loaded = require(join(builds, key, 'engine.node')) as Addon
  if (loaded.abi !== abi) {
    throw new Error(`the media engine was built for interface ${loaded.abi}, but ${abi} is wanted; ${remedy}`)
  }
  loaded.start((id, isEnding, value) => {
    const ended = reasons[value - 1] ?? 'stopped'
    listeners.get(id)?.(isEnding ? { ended } : { streamingMs: value })
  })
  return loaded
}

export const addon = load()
