// Getting hold of a package: from a registry, a packed file or a folder, unpacked and looked into, nothing run.
import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { lstat, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Examined } from 'svc-host/sdk'
import { unpack } from './archive.ts'
import { measured } from './dependencies.ts'
import { inspect, type Report } from './inspect.ts'
import type { Npm } from './npm.ts'
import type { Spec } from './spec.ts'

/** The largest packed package that is taken in. */
const limitBytes = 32 * 2 ** 20

export interface Fetched {
  readonly folder: string
  /** Files and folders written below it, and itself. */
  readonly written: readonly string[]
  /** sha512 of the packed package, as npm writes it. */
  readonly integrity: string
  readonly report: Report
  /** Seal of what came in the package, where dependencies were put beside it. */
  readonly contents?: string
}

export interface SourceOptions {
  readonly npm: Npm
  /** A folder of this operation's own. */
  readonly work: string
  readonly examine: (folder: string) => Promise<Examined>
  readonly signal: AbortSignal
}

export async function sha512Of(file: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha512')
  await pipeline(createReadStream(file), hash, ...(signal ? [{ signal }] : []))
  return `sha512-${hash.digest('base64')}`
}

/** A packed package as it is, a folder packed. */
export async function packFolder(path: string, npm: Npm): Promise<string> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${path} cannot be read: ${error.code ?? error.message}`)
  })
  if (found.isDirectory()) return (await npm.pack(path)).file
  if (!found.isFile()) throw new Error(`${path} is neither a packed package nor a folder`)
  return path
}

/** The packed package that a spec stands for. */
async function packedFile(
  spec: Spec,
  registries: Readonly<Record<string, string>>,
  npm: Npm,
): Promise<string> {
  if (spec.kind === 'registry') return (await npm.pack(`${spec.name}@${spec.wanted}`, registries)).file
  return packFolder(spec.path, npm)
}

/** Fetches, checks and unpacks; what is wrong with the package itself is in the report. */
export async function fetchPackage(
  spec: Spec,
  { npm, work, examine, signal }: SourceOptions,
  { registries = {}, integrity }: { registries?: Readonly<Record<string, string>>; integrity?: string } = {},
): Promise<Fetched> {
  await mkdir(work, { recursive: true, mode: 0o700 })
  const file = await packedFile(spec, registries, npm)
  const { size } = await lstat(file)
  if (size > limitBytes) throw new Error(`the package is ${size} bytes; at most ${limitBytes} are taken in`)
  const found = await sha512Of(file, signal)
  if (integrity !== undefined && found !== integrity)
    throw new Error('the package is not the one that the catalog names: their sha512 differ')
  const folder = join(work, 'package')
  const written = await unpack(file, folder)
  signal.throwIfAborted()
  return { folder, written, integrity: found, report: await inspect(folder, examine) }
}

/** Puts the packages that it needs beside it, where it does not bring them; none of their scripts is run. */
export async function complete(
  fetched: Fetched,
  { npm, work, examine, signal }: SourceOptions,
  registries: Readonly<Record<string, string>> = {},
): Promise<Fetched> {
  const { folder, report } = fetched
  const { found } = report
  if (!found || found.missing.length === 0) return fetched
  const beside = join(work, 'dependencies')
  await npm.install(beside, found.needs, registries)
  signal.throwIfAborted()
  const [from, into] = [beside, folder].map(path => join(path, 'node_modules')) as [string, string]
  await rm(into, { recursive: true, force: true })
  if (!existsSync(from)) return fetched
  // What npm notes for itself names registries, and is not the same each time.
  await rm(join(from, '.package-lock.json'), { force: true })
  await rename(from, into)
  const written = await measured(folder, async path => (await lstat(path)).size)
  const { seal } = await examine(folder)
  return { ...fetched, written, contents: found.seal, report: { ...report, found: { ...found, seal } } }
}
