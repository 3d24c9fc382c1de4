// The served OpenAPI document and its checked-in copy, made comparable.
import { startBuiltIns } from './built-ins.ts'

export const copyPath = 'sdk/openapi.json'

export interface Document {
  info: { version: string }
  [part: string]: unknown
}

/** The document of a host with every built-in on. */
export async function servedDocument(): Promise<Document> {
  const host = await startBuiltIns()
  try {
    return (await host.inject('GET', '/openapi.json', { token: null })).json
  } finally {
    await host.stop()
  }
}

/** Keys in one order, so that a copy changes only where the document does. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}

/** The release left out: a copy does not go stale by a release alone. */
export const normalised = (document: Document): unknown =>
  sorted({ ...document, info: { ...document.info, version: '' } })
