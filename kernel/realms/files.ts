// Files on behalf of an extension: each place is taken hold of first and judged by where it then is, so that no link and no
// rename in between leads elsewhere.
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { lstat, mkdir, open, opendir, readlink, realpath, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { PermissionError } from 'svc-host/sdk'
import { createGate } from '../../sdk/egress/gate.ts'
import type { FileInfo, Files } from '../../sdk/outside.ts'
import { isRoot } from '../folder.ts'
import type { Rights } from '../permissions.ts'

const sizeLimitBytes = 4 * 1024 * 1024
const entryLimit = 10_000
const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants
/** Linux: takes hold of a place without opening what lies there; devices and pipes do not notice. */
const O_PATH = 0o10000000

export interface FilesOptions {
  readonly id: string
  readonly configDir: string
  readonly rights: Rights
}

type Kind = 'read' | 'write'

interface Place {
  /** Leads to this very place, whatever happens to its name. */
  readonly at: string
  readonly stats: Stats
}

const isIn = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? folder : `${folder}/`)

/** Absolute and without detours. */
function pathOf(given: string): string {
  const isSane = /^(~?\/)(?!.*(^|\/)\.\.(\/|$))/s.test(given) && !given.includes('\0') && given.length <= 4096
  if (!isSane)
    throw new Error(`"${given.slice(0, 200)}" is no path; write an absolute one or ~/…, without ".."`)
  return normalize(given.replace(/^~(?=\/)/, homedir())).replace(/(?<=.)\/$/, '')
}

const sentences: Record<string, string> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of it is no folder',
  EISDIR: 'it is a folder',
  ENOTEMPTY: 'the folder is not empty',
  EEXIST: 'it is there already',
  EACCES: 'the host’s account may not do that',
  EPERM: 'the host’s account may not do that',
  ENOSPC: 'the disk is full',
  EROFS: 'the disk cannot be written to',
  ELOOP: 'its links lead in a circle',
}
const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code)

/** Where something that may not be there yet lies. */
const realOf = (path: string): Promise<string> =>
  realpath(path).catch(async () => join(await realpath(dirname(path)), path.slice(dirname(path).length)))

export function createFiles({ id, configDir, rights }: FilesOptions): Files {
  // Few, so that a disk that hangs leaves threads for everybody else.
  const gate = createGate(2, 256, 'file operations')

  /** By where a place really is: granted itself, or within what a granted path leads to, and nobody's secret. */
  const judge = async (kind: Kind, given: string, real: string): Promise<void> => {
    if (rights.isFree) return
    const refuse = (why: string): never => {
      throw new PermissionError(
        `${kind}:${real}`,
        `${given} ${real === given ? '' : `leads to ${real}, which `}${why}`,
      )
    }
    const config = await realpath(configDir)
    if (isIn(config, real) && !isIn(join(config, 'plugin-state', id), real))
      refuse('lies among the settings of the host, which no permission opens')
    if (['/proc', '/sys', '/dev'].some(folder => isIn(folder, real)))
      refuse('is no file of a disk, and no permission opens those')
    if (rights.has(`${kind}:${real}`)) return
    const { asked, granted } = rights.decided
    for (const text of [...asked, ...granted]) {
      const root = /^(?:read|write):(.*)$/s.exec(text)?.[1]
      const realRoot = root && (await realOf(root).catch(() => undefined))
      const named = realRoot && isIn(realRoot, real) && join(root, real.slice(realRoot.length))
      if (named && rights.has(`${kind}:${named}`)) return
    }
    refuse(`was not granted; ask for ${kind}:${real}`)
  }

  /** Takes hold of a place, or of the folder that `name` is or will be in, judges it, and lets go of it afterwards. */
  const hold = async <T>(
    kind: Kind,
    path: string,
    name: string | undefined,
    run: (place: Place) => Promise<T>,
  ): Promise<T> => {
    const [place, flags] = name === undefined ? [path, O_PATH] : [dirname(path), O_PATH | O_DIRECTORY]
    const handle = await open(place, flags)
    try {
      const at = `/proc/self/fd/${handle.fd}`
      await judge(kind, path, join(await readlink(at), name ?? ''))
      return await run({ at, stats: await handle.stat() })
    } finally {
      await handle.close()
    }
  }

  const within = <T>(kind: Kind, given: string, run: (path: string) => Promise<T>): Promise<T> =>
    gate(async () => {
      const path = pathOf(given)
      rights.check(`${kind}:${path}`)
      try {
        return await run(path)
      } catch (error) {
        const sentence = sentences[codeOf(error)]
        if (sentence === undefined) throw error
        throw Object.assign(new Error(`${given}: ${sentence}`), { code: codeOf(error) })
      }
    })
  const nameOf = (path: string): string => {
    const name = path.slice(path.lastIndexOf('/') + 1)
    if (!name) throw new Error(`${path} cannot be changed itself`)
    return name
  }

  const read = (given: string): Promise<Buffer> =>
    within('read', given, path =>
      hold('read', path, undefined, async ({ at, stats }) => {
        if (!stats.isFile()) throw new Error(`${given} is no file`)
        const file = await open(at, O_RDONLY)
        const content = await buffer(file.createReadStream({ end: sizeLimitBytes }))
        if (content.length > sizeLimitBytes) throw new Error(`${given} is over ${sizeLimitBytes} bytes`)
        return content
      }),
    )

  const makeFolder = async (path: string): Promise<void> => {
    const name = nameOf(path)
    const make = (): Promise<void> =>
      hold('write', path, name, ({ at }) =>
        mkdir(join(at, name)).catch(async error => {
          if (codeOf(error) !== 'EEXIST' || !(await lstat(join(at, name))).isDirectory()) throw error
        }),
      )
    await make().catch(async error => {
      if (codeOf(error) !== 'ENOENT') throw error
      rights.check(`write:${dirname(path)}`)
      await makeFolder(dirname(path))
      await make()
    })
  }

  return {
    read,
    readText: async path => (await read(path)).toString('utf8'),
    write: (given, data) =>
      within('write', given, path => {
        const content = typeof data === 'string' ? Buffer.from(data) : data
        if (content.length > sizeLimitBytes) throw new Error(`${given} would be over ${sizeLimitBytes} bytes`)
        const name = nameOf(path)
        return hold('write', path, name, async ({ at, stats }) => {
          const target = join(at, name)
          const before = await lstat(target).catch(() => undefined)
          if (before?.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
          const draft = join(at, `.${name.slice(0, 64)}.${randomBytes(6).toString('hex')}.tmp`)
          const file = await open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
          try {
            // As root it would otherwise belong to root wherever it lies.
            const owner = before?.isFile() ? before : stats
            if (isRoot()) await file.chown(owner.uid, owner.gid)
            if (before?.isFile()) await file.chmod(before.mode & 0o777)
            await file.writeFile(content)
            await file.sync()
            await rename(draft, target)
          } catch (error) {
            await rm(draft, { force: true })
            throw error
          } finally {
            await file.close()
          }
        })
      }),
    list: given =>
      within('read', given, path =>
        hold('read', path, undefined, async ({ at, stats }) => {
          if (!stats.isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' })
          const entries: { name: string; kind: FileInfo['kind'] }[] = []
          for await (const entry of await opendir(at)) {
            if (entries.length === entryLimit) throw new Error(`${given} holds over ${entryLimit} entries`)
            entries.push({ name: entry.name, kind: kindOf(entry) })
          }
          return entries
        }),
      ),
    stat: async given => {
      try {
        return await within('read', given, path =>
          hold('read', path, undefined, async ({ stats }) => ({
            kind: kindOf(stats),
            bytes: stats.size,
            modifiedMs: Math.round(stats.mtimeMs),
          })),
        )
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return undefined
        throw error
      }
    },
    remove: given =>
      within('write', given, path => {
        const name = nameOf(path)
        return hold('write', path, name, async ({ at }) => {
          const target = join(at, name)
          const isFolder = (await lstat(target)).isDirectory()
          await (isFolder ? rmdir(target) : unlink(target))
        })
      }),
    makeFolder: given => within('write', given, makeFolder),
  }
}

const kindOf = (entry: Pick<Stats, 'isFile' | 'isDirectory'>): FileInfo['kind'] =>
  entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : 'other'
