// What a package needs of other packages: bundles need nothing, what has Node to itself may bring or name some.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import semver from 'semver'

export interface Needs {
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly bundleDependencies?: unknown
  readonly bundledDependencies?: unknown
}

const supplied = ['svc-host', 'zod']
const bundle = 'a plugin is one bundle that holds what it needs'
const tag = /^[a-z][a-z0-9._-]*$/i

/** Only what a registry has: folders, addresses and repositories could be anything of this machine. */
const isFromRegistry = (wanted: string): boolean => {
  const range = /^npm:(?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+@(.+)$/i.exec(wanted)?.[1] ?? wanted
  return semver.validRange(range) !== null || tag.test(range)
}

/** What is wrong with what package.json names, a sentence each; `hasNode`: it has a Node of its own. */
export function dependenciesRefused(json: Needs, hasNode: boolean): string[] {
  const shipped = { ...json.dependencies, ...json.optionalDependencies }
  const own = Object.keys(shipped).filter(name => supplied.includes(name))
  const other = Object.keys(shipped).filter(name => !supplied.includes(name))
  const foreign = other.filter(name => !isFromRegistry(shipped[name]!))
  const peers = Object.keys(json.peerDependencies).filter(name => !supplied.includes(name))
  const bundled = json.bundleDependencies ?? json.bundledDependencies
  const hasBundled = !(
    bundled === undefined ||
    bundled === false ||
    (Array.isArray(bundled) && bundled.length === 0)
  )
  const moveIt = 'the host supplies it, move it to peerDependencies'
  return [
    ...(!hasNode && other.length ? [`has dependencies (${other.join(', ')}); ${bundle}`] : []),
    ...(hasNode && foreign.length
      ? [`has dependencies (${foreign.join(', ')}) that are not versions of a registry; name a version`]
      : []),
    ...(own.length ? [`has ${own.join(' and ')} among its dependencies; ${moveIt}`] : []),
    ...(peers.length ? [`has peerDependencies (${peers.join(', ')}) that the host does not supply`] : []),
    ...(hasBundled && !hasNode ? [`has bundled dependencies; ${bundle}`] : []),
  ]
}

/** The version of a package that lies in the folder's own node_modules. */
async function versionThere(folder: string, name: string): Promise<string | undefined> {
  const path = join(folder, 'node_modules', name, 'package.json')
  if (!existsSync(path)) return undefined
  try {
    return String(JSON.parse(await readFile(path, 'utf8')).version)
  } catch {
    return undefined
  }
}

/** Those that the package names and does not bring; where it brings all that it must have, nothing is fetched. */
export async function missingDependencies(
  folder: string,
  { dependencies, optionalDependencies }: Pick<Needs, 'dependencies' | 'optionalDependencies'>,
): Promise<string[]> {
  const names = Object.keys(dependencies).filter(name => !Object.hasOwn(optionalDependencies, name))
  const missing: string[] = []
  for (const name of names) {
    const version = await versionThere(folder, name)
    const range = semver.validRange(dependencies[name]!)
    if (version === undefined || (range !== null && !semver.satisfies(version, range))) missing.push(name)
  }
  // Of optional ones some are always missing, being for other machines: they count only where nothing is brought.
  const bringsNone = !existsSync(join(folder, 'node_modules'))
  return bringsNone ? [...missing, ...Object.keys(optionalDependencies)] : missing
}

export const limits = { bytes: 256 * 2 ** 20, files: 20_000 } as const

/** Every file and folder below, and itself; throws where there is more than may be kept, or something else. */
export async function measured(folder: string, sizeOf: (path: string) => Promise<number>): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  if (entries.length > limits.files)
    throw new Error(`with its dependencies the package has over ${limits.files} files`)
  let bytes = 0
  const paths = [folder]
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile() && !entry.isDirectory())
      throw new Error(`${path.slice(folder.length + 1)} is neither a file nor a folder`)
    if (entry.isFile()) bytes += await sizeOf(path)
    paths.push(path)
  }
  if (bytes > limits.bytes) throw new Error(`with its dependencies the package is over ${limits.bytes} bytes`)
  return paths
}
