// Unpacking what strangers have packed: files and folders only, all below one folder, within limits, or nothing at all.
import { createReadStream } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { Parser, type ReadEntry } from 'tar'

/** A plugin is one bundle with its papers and pictures; whatever is larger is something else. */
export const limits = { bytes: 64 * 2 ** 20, files: 2000, depth: 16, name: 200 } as const

/** The package is not one that may be unpacked; says which entry, and why. */
export class ArchiveRefused extends Error {}

const refuse = (path: string, why: string): never => {
  throw new ArchiveRefused(`${JSON.stringify(path.slice(0, limits.name))} in the package ${why}`)
}

/** The parts of a path below the package's one top folder. */
function partsOf(path: string): string[] {
  if (/[\u0000-\u001f\u007f\\:]/.test(path)) refuse(path, 'has a character that no path may have')
  if (path.startsWith('/')) refuse(path, 'has an absolute path')
  const parts = path.replace(/\/$/, '').split('/')
  if (parts.includes('..')) refuse(path, 'leads out of the package')
  if (parts.some(part => part === '' || part === '.')) refuse(path, 'has an empty part in its path')
  if (parts.some(part => /[. ]$/.test(part))) refuse(path, 'ends a name with a dot or a blank')
  if (parts.some(part => Buffer.byteLength(part) > limits.name)) refuse(path, 'has too long a name')
  if (parts.length > limits.depth) refuse(path, 'lies too deep')
  return parts.slice(1)
}

/** Keeps watch over the paths of one archive: no two may meet, on a system that ignores case either. */
function createPaths(): (parts: readonly string[], kind: 'file' | 'folder') => void {
  const taken = new Map<string, { readonly path: string; readonly kind: 'file' | 'folder' }>()
  return (parts, kind) => {
    for (let count = 1; count <= parts.length; count++) {
      const path = parts.slice(0, count).join('/')
      const wanted = count === parts.length ? kind : 'folder'
      const key = path.normalize('NFC').toLowerCase()
      const other = taken.get(key)
      if (!other) taken.set(key, { path, kind: wanted })
      else if (other.path !== path)
        refuse(path, `has the place of ${JSON.stringify(other.path)} where case does not count`)
      else if (other.kind !== wanted || wanted === 'file') refuse(path, 'is there twice')
    }
  }
}

/** Counts what comes out of the compression, so that a small file cannot become a large one. */
const limited = (): Transform => {
  let bytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      const isOver = bytes > limits.bytes
      done(isOver ? new ArchiveRefused(`the package unpacks to over ${limits.bytes} bytes`) : null, chunk)
    },
  })
}

/** Unpacks a gzipped tar into a new folder and returns the paths written, files and folders. */
export async function unpack(archive: string, folder: string): Promise<string[]> {
  const note = createPaths()
  const writes: Promise<void>[] = []
  const written = new Set<string>([folder])
  let files = 0
  let failure: unknown
  await mkdir(folder, { recursive: true, mode: 0o755 })

  const write = async (path: string, chunks: readonly Buffer[]): Promise<void> => {
    await mkdir(dirname(path), { recursive: true, mode: 0o755 })
    const file = await open(path, 'wx', 0o644)
    await file.writeFile(Buffer.concat(chunks)).finally(() => file.close())
    for (let at = dirname(path); at.length > folder.length; at = dirname(at)) written.add(at)
    written.add(path)
  }

  const take = (entry: ReadEntry): void => {
    const isFolder = entry.type === 'Directory'
    if (!isFolder && !['File', 'OldFile', 'ContiguousFile'].includes(entry.type))
      refuse(entry.path, `is a ${entry.type}, which a package may not have`)
    files += 1
    if (files > limits.files) throw new ArchiveRefused(`the package has over ${limits.files} entries`)
    const parts = partsOf(entry.path)
    if (parts.length === 0) {
      if (!isFolder) refuse(entry.path, 'lies beside the package and not in it')
      return
    }
    note(parts, isFolder ? 'folder' : 'file')
    if (isFolder) return
    const chunks: Buffer[] = []
    entry.on('data', chunk => chunks.push(chunk))
    entry.on('end', () => writes.push(write(join(folder, ...parts), chunks)))
  }

  const parser = new Parser({
    strict: true,
    onReadEntry(entry) {
      try {
        if (failure === undefined) take(entry)
      } catch (error) {
        failure = error
      }
      entry.resume()
    },
  })
  const ended = new Promise<void>(done => {
    parser.on('end', () => done())
    parser.on('error', error => {
      failure ??= new ArchiveRefused(`the package is damaged: ${(error as Error).message}`)
      done()
    })
  })
  const source = createReadStream(archive)
  const gunzip = createGunzip()
  const plain = limited()
  source.on('error', error => gunzip.destroy(error))
  gunzip.on('error', error => plain.destroy(error))
  source.pipe(gunzip).pipe(plain)
  try {
    for await (const chunk of plain) {
      parser.write(chunk as Buffer)
      if (failure !== undefined) throw failure
    }
    parser.end()
    await ended
  } catch (error) {
    failure ??= /^Z_/.test((error as NodeJS.ErrnoException).code ?? '')
      ? new ArchiveRefused('the package is not a gzipped tar, or damaged')
      : error
  } finally {
    source.destroy()
    gunzip.destroy()
  }
  const settled = await Promise.allSettled(writes)
  const broken = settled.find(each => each.status === 'rejected')
  if (failure !== undefined) throw failure
  if (broken) throw broken.reason
  if (written.size === 1) throw new ArchiveRefused('the package is empty')
  return [...written]
}
