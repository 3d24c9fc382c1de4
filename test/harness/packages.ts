// Makes plugin packages for tests: folders as an author has them, packed as npm packs, and archives as only an enemy makes them.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { create, Header } from 'tar'

export interface PackageOptions {
  /** Default `svc-plugin-<id>`. */
  readonly pkg?: string
  readonly version?: string
  readonly realm?: 'kernel' | 'isolate' | 'process'
  /** The body of its setup. */
  readonly setup?: string
  /** Imports the SDK by its name, which only a host in a process of its own has for it. */
  readonly importsSdk?: boolean
  /** Instead of the whole main module. */
  readonly main?: string
  readonly packageJson?: Readonly<Record<string, unknown>>
  readonly manifest?: Readonly<Record<string, unknown>>
  /** More files by their paths. */
  readonly files?: Readonly<Record<string, string>>
}

/** The main module of a plugin that answers `GET <path>` with its version. */
const mainOf = (id: string, path: string, version: string, setup: string, importsSdk: boolean): string => `
import { z } from 'zod'
${importsSdk ? "import { defineExtension } from 'svc-host/sdk'" : 'const defineExtension = extension => extension'}
export default defineExtension({
  async setup(ctx) {
    ctx.route({ method: 'GET', path: '${path}', id: 'get-${id}', tag: 'x', summary: '${id}',
      lanes: { plugin: false, device: false }, replies: { 200: z.object({ version: z.string() }) },
      handler: () => ({ version: '${version}' }) })
    ${setup}
  },
})
`

/** Writes a package folder `<parent>/<id>-<version>` and returns its path. */
export function writePackage(parent: string, id: string, options: PackageOptions = {}): string {
  const { pkg = `svc-plugin-${id}`, version = '1.0.0', realm = 'kernel', setup = '', files = {} } = options
  const folder = join(parent, `${id}-${version}`)
  mkdirSync(folder, { recursive: true })
  const json = {
    name: pkg,
    version,
    type: 'module',
    peerDependencies: { 'svc-host': '*' },
    ...options.packageJson,
  }
  const isApart = realm !== 'kernel'
  const permissions = isApart ? ['routes'] : []
  const plain = { id, version, sdk: '^1.0.0', title: id, realm, main: 'index.js', permissions }
  const manifest = { ...plain, ...options.manifest }
  const path = isApart ? `/ext/${id}` : `/${id}`
  writeFileSync(join(folder, 'package.json'), JSON.stringify(json))
  writeFileSync(join(folder, 'extension.json'), JSON.stringify(manifest))
  writeFileSync(
    join(folder, 'index.js'),
    options.main ?? mainOf(id, path, version, setup, options.importsSdk === true),
  )
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text)
  return folder
}

/** Packs a folder, as npm would, into a file; returns its path. */
export async function packFolder(folder: string, file: string): Promise<string> {
  await create({ gzip: true, portable: true, cwd: folder, prefix: 'package', file }, readdirSync(folder))
  return file
}

export interface RawEntry {
  readonly path: string
  readonly type?: 'File' | 'Directory' | 'SymbolicLink' | 'Link' | 'CharacterDevice' | 'BlockDevice' | 'FIFO'
  readonly linkpath?: string
  readonly content?: Buffer | string
}

/** A gzipped tar with just these entries, however wrong. */
export function rawArchive(entries: readonly RawEntry[]): Buffer {
  const blocks = entries.flatMap(({ path, type = 'File', linkpath = '', content = '' }) => {
    const body = Buffer.from(content)
    const header = new Header({
      path,
      type,
      linkpath,
      size: body.length,
      mode: 0o644,
      uid: 0,
      gid: 0,
      mtime: new Date(0),
    })
    const block = Buffer.alloc(512)
    header.encode(block)
    return [block, body, Buffer.alloc((512 - (body.length % 512)) % 512)]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}
