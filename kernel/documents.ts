// Files in the config folder: written whole or not at all, and read as far as they make sense.
import { copyFile, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { DocumentFile } from 'svc-host/sdk'
import writeFileAtomic from 'write-file-atomic'
import type { z } from 'zod'
import { createTurns } from './turns.ts'

/** Replaces a file: temporary file, fsync, rename, fsync of the folder. Mode 0600 unless told otherwise. */
export async function writeDurably(path: string, content: string, mode = 0o600): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await writeFileAtomic(path, content, { mode, fsync: true })
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
}

/** Removes what a crash in the middle of a write has left beside the file. */
async function dropDrafts(path: string): Promise<void> {
  const draft = new RegExp(`^${RegExp.escape(basename(path))}\\.\\d+$`)
  for (const name of await readdir(dirname(path)).catch(() => []))
    if (draft.test(name)) await rm(join(dirname(path), name), { force: true })
}

/** The text of a file; undefined: it is not there. */
export const readIfThere = (path: string): Promise<string | undefined> =>
  readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new Error(`cannot read ${path}: ${error.message}`, { cause: error })
  })

const asideName = (path: string): string => `${path}.broken-${new Date().toISOString().replaceAll(':', '-')}`

/** Copies a file of which only a part can be used, and returns the copy's path. */
export async function copyAside(path: string): Promise<string> {
  const aside = asideName(path)
  await copyFile(path, aside)
  return aside
}

/** Moves a file that cannot be used out of the way and returns its new path; nothing is ever thrown away. */
export async function keepAside(path: string): Promise<string> {
  const aside = asideName(path)
  await rename(path, aside)
  return aside
}

const isRecord = (value: unknown): value is Record<PropertyKey, unknown> =>
  typeof value === 'object' && value !== null

/** Takes the value at `path` out, or what ought to hold it where it is missing; false: that is the whole. */
function cutOut(root: unknown, path: readonly PropertyKey[]): boolean {
  let value = root
  let holder: Record<PropertyKey, unknown> | undefined
  let at: PropertyKey = ''
  for (const key of path) {
    if (!isRecord(value) || !Object.hasOwn(value, key)) break
    ;[holder, at, value] = [value, key, value[key]]
  }
  if (!holder) return false
  if (Array.isArray(holder)) holder.splice(Number(at), 1)
  else delete holder[at]
  return true
}

/** Parses as far as it goes: what does not fit is left out, piece by piece; undefined: nothing can be used. */
function salvage<S extends z.ZodType>(
  schema: S,
  raw: unknown,
): { value: z.output<S>; lost: string[] } | undefined {
  const copy = structuredClone(raw)
  const lost: string[] = []
  for (let round = 0; round < 1000; round++) {
    const result = schema.safeParse(copy)
    if (result.success) return { value: result.data, lost }
    const { path } = result.error.issues[0]!
    if (!cutOut(copy, path)) return undefined
    lost.push(path.join('.'))
  }
  return undefined
}

const versionOf = (value: unknown): number | undefined =>
  isRecord(value) && typeof value['version'] === 'number' ? value['version'] : undefined

/** Opens a settings file. `warn` is told when it is broken, newer than this host, or has parts that do not fit. */
export async function openDocument<S extends z.ZodType>(
  path: string,
  schema: S,
  warn: (message: string) => void,
): Promise<DocumentFile<z.output<S>>> {
  const name = basename(path)
  let value: z.output<S> = schema.parse({})
  let unknown: Record<string, unknown> = {}
  await dropDrafts(path)
  const text = await readIfThere(path)
  let exists = text !== undefined
  if (text !== undefined) {
    const raw = parseJson(text)
    const read = isRecord(raw) && !Array.isArray(raw) ? salvage(schema, raw) : undefined
    if (!read) {
      warn(`${name} cannot be read; it was kept as ${basename(await keepAside(path))} and defaults are used`)
      exists = false
    } else {
      const [found, known] = [versionOf(raw), versionOf(value) ?? 1]
      value = read.value
      if ('shape' in schema)
        unknown = without(raw as Record<string, unknown>, Object.keys(schema.shape as object))
      if (found !== undefined && found > known)
        warn(`${name} is of version ${found} and this host knows ${known}; what it does not know is kept`)
      if (read.lost.length) {
        const copy = basename(await copyAside(path))
        warn(`${name}: left out what does not fit (${read.lost.join(', ')}); a copy is ${copy}`)
      }
    }
  }
  const inTurn = createTurns()
  return {
    get value() {
      return value
    },
    get exists() {
      return exists
    },
    write: change =>
      inTurn(async () => {
        const next = change instanceof Function ? change(value) : change
        await writeDurably(path, `${JSON.stringify({ ...unknown, ...(next as object) }, null, 2)}\n`)
        value = next
        exists = true
      }),
  }
}

const without = (record: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).filter(([key]) => !keys.includes(key)))

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
