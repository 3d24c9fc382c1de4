// The sources of plugins: which there are, what each has said last, and what follows from it.

import semver from 'semver'
import type { CatalogOffer } from 'svc-host/api/catalog'
import { type DocumentFile, HttpError, type Log } from 'svc-host/sdk'
import { z } from 'zod'
import { fetchIndex, type Source } from './fetch-index.ts'
import { Index, type IndexEntry, type SourceInput, type SourceRow } from './schema.ts'

export const builtinName = 'svc'
/** After this long an index is read anew before it is shown. */
const freshMs = 3_600_000

/** `catalog-sources.json`: the sources that were added, and the last good index of each. */
export const SourcesFile = z.object({
  version: z.int().default(1),
  sources: z.record(z.string(), z.object({ url: z.string(), publicKey: z.string().optional() })).default({}),
  indexes: z
    .record(z.string(), z.object({ fetchedAtMs: z.int(), url: z.string(), index: Index }))
    .default({}),
})
export type SourcesFile = z.output<typeof SourcesFile>

export interface SourcesOptions {
  readonly file: DocumentFile<SourcesFile>
  /** The built-in source; without an address or a key it offers nothing. */
  readonly builtin: { readonly url?: string | undefined; readonly publicKey?: string | undefined }
  readonly nowMs: () => number
  readonly signal: AbortSignal
  readonly log: Log
}

export interface Listed extends CatalogOffer {
  readonly entry: IndexEntry
}

export type Sources = ReturnType<typeof createSources>

export function createSources({ file, builtin, nowMs, signal, log }: SourcesOptions) {
  const errors = new Map<string, string>()
  const all = (): [string, Source][] => [
    [builtinName, { url: builtin.url ?? '', publicKey: builtin.publicKey }],
    ...Object.entries(file.value.sources),
  ]
  // What was fetched from another address is not what this source has said.
  const kept = (name: string) => {
    const found = file.value.indexes[name]
    return found && found.url === all().find(([each]) => each === name)?.[1].url ? found : undefined
  }
  const isStale = (name: string): boolean => {
    const fetchedAtMs = kept(name)?.fetchedAtMs ?? 0
    return Math.abs(nowMs() - fetchedAtMs) > freshMs
  }

  const refreshOne = async (name: string, source: Source): Promise<void> => {
    try {
      if (source.url === '')
        throw new Error('no address is configured: set SVC_CATALOG_URL and SVC_CATALOG_KEY')
      if (name === builtinName && source.publicKey === undefined)
        throw new Error('no key is configured: set SVC_CATALOG_KEY')
      const { url } = source
      const index = await fetchIndex(source, kept(name)?.index.serial ?? 0, signal)
      await file.write(now => ({
        ...now,
        indexes: { ...now.indexes, [name]: { fetchedAtMs: nowMs(), url, index } },
      }))
      errors.delete(name)
    } catch (error) {
      errors.set(name, (error as Error).message)
      if (source.url !== '') log.warn(`source ${name}: ${(error as Error).message}`)
    }
  }
  let refreshing: Promise<void> | undefined
  /** Reads all of them, or those that are stale; callers at once share it. */
  const refresh = (which: 'all' | 'stale'): Promise<void> => {
    const due = all().filter(([name]) => which === 'all' || (isStale(name) && !errors.has(name)))
    if (due.length === 0) return Promise.resolve()
    refreshing ??= Promise.all(due.map(([name, source]) => refreshOne(name, source)))
      .then(() => undefined)
      .finally(() => {
        refreshing = undefined
      })
    return refreshing
  }

  /** Every offer, the built-in source's first. */
  const offers = (): Listed[] =>
    all().flatMap(([source]) =>
      (kept(source)?.index.plugins ?? []).map(entry => {
        const { id, pkg, version, integrity } = entry
        const tier = source === builtinName ? ('verified' as const) : ('external' as const)
        return { source, tier, id, pkg, version, integrity, entry }
      }),
    )

  return {
    refresh,
    offers,
    find: (source: string, id: string) => offers().find(each => each.source === source && each.id === id),
    newest: (source: string, pkg: string) =>
      offers().find(each => each.source === source && each.pkg === pkg),
    /** Any source may warn; nobody can take a warning of another back. */
    blocked(pkg: string, version: string): string | undefined {
      for (const [source] of all())
        for (const each of kept(source)?.index.blocked ?? [])
          if (each.pkg === pkg && semver.satisfies(version, each.versions, { includePrerelease: true }))
            return `${each.reason} (${source})`
      return undefined
    },
    rows: (): SourceRow[] =>
      all().map(([name, { url, publicKey }]) => {
        const index = kept(name)
        const error = errors.get(name)
        return {
          name,
          url,
          builtin: name === builtinName,
          signed: publicKey !== undefined,
          stale: isStale(name),
          entry_count: index?.index.plugins.length ?? 0,
          ...(index && { fetched_at: Math.floor(index.fetchedAtMs / 1000) }),
          ...(error !== undefined && { error }),
          ...(publicKey !== undefined && { public_key: publicKey }),
        }
      }),
    async put(name: string, { url, public_key: publicKey }: SourceInput): Promise<void> {
      if (name === builtinName) throw new HttpError(400, `the built-in source "${name}" cannot be changed`)
      const source = { url, ...(publicKey !== undefined && { publicKey }) }
      await file.write(now => {
        const { [name]: before, ...indexes } = now.indexes
        const isSame = JSON.stringify(now.sources[name]) === JSON.stringify(source)
        return {
          ...now,
          sources: { ...now.sources, [name]: source },
          indexes: isSame && before ? now.indexes : indexes,
        }
      })
      errors.delete(name)
    },
    async remove(name: string): Promise<void> {
      if (name === builtinName) throw new HttpError(403, `the built-in source "${name}" cannot be removed`)
      if (!file.value.sources[name]) return
      await file.write(now => {
        const { [name]: _source, ...sources } = now.sources
        const { [name]: _index, ...indexes } = now.indexes
        return { ...now, sources, indexes }
      })
      errors.delete(name)
    },
  }
}
