// Names on the command line: which package, path or installed extension somebody means.
import { resolve } from 'node:path'
import { UsageError } from 'svc-host/api/ctl'
import type { InstalledRow } from './schema.ts'
import { fullName, isVendorName, parseSpec, SpecRefused, vendorScope } from './spec.ts'

const isPath = (text: string): boolean =>
  /^(\.{0,2}\/|\.{1,2}$|~)/.test(text) ||
  /\.(tgz|tar\.gz)$/.test(text) ||
  (text.includes('/') && !text.startsWith('@'))

/** The spec that the host is asked for; throws a usage error where the flag is missing. */
export function specOf(
  text: string,
  { exact, allowPublic }: { exact: boolean; allowPublic: boolean },
): string {
  if (text.startsWith('file:') || isPath(text)) return `file:${resolve(text.replace(/^file:/, ''))}`
  const at = text.indexOf('@', 1)
  const [name, rest] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at)]
  const full = fullName(name, exact)
  try {
    parseSpec(full + rest)
  } catch (error) {
    if (error instanceof SpecRefused) throw new UsageError(error.message)
    throw error
  }
  if (!isVendorName(full) && !allowPublic) {
    const remedy = 'anyone may have published it; add --allow-public-registry if you trust who has'
    throw new UsageError(`${full} is not in the vendor's scope ${vendorScope}: ${remedy}`)
  }
  return full + rest
}

/** The id of an extension, which may be that of a catalog's entry. */
export const isId = (text: string): boolean => /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(text)

/** What to ask the host for: an entry where the vendor's catalog, or the one that is named, has it; else a spec. */
export function requestOf(
  text: string,
  entries: readonly { readonly source: string; readonly id: string; readonly tier: string }[],
  { source, ...options }: { exact: boolean; allowPublic: boolean; source?: string },
): { source: string; id: string } | { spec: string } {
  const isMeant = (each: { source: string; tier: string }): boolean =>
    source === undefined ? each.tier === 'verified' : each.source === source
  const entry = options.exact ? undefined : entries.find(each => each.id === text && isMeant(each))
  if (entry) return { source: entry.source, id: entry.id }
  if (source !== undefined)
    throw new UsageError(`the source ${source} has no "${text}"; see "svc-host plugins search"`)
  return { spec: specOf(text, options) }
}

/** The installed package that is meant by its id, its name or what it was added by; `after` ends the refusal. */
export function installedAs(rows: readonly InstalledRow[], text: string, after = ''): InstalledRow {
  const found = rows.find(({ pkg, plugin_id }) => [pkg, plugin_id].includes(text) || pkg === fullName(text))
  if (found) return found
  const known = rows.map(({ plugin_id, pkg }) => plugin_id ?? pkg).join(', ')
  const told = [`${text} is not installed`, known ? `installed: ${known}` : 'nothing is', after]
  throw new UsageError(told.filter(Boolean).join('; '))
}
