// Permissions whose host or folder the operator sets in the extension's config: `network:{config.url}`.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { targetOf } from 'svc-host/egress'
import { parsePermission } from 'svc-host/sdk'

const pattern = /^(network|read|write):\{config\.(.+)\}$/

/** A URL as the host and port that it leads to; all else as it is. */
function placeOf(value: string): string {
  const url = value.includes('://') ? URL.parse(value) : null
  if (!url) return value
  const { host, port } = targetOf(url)
  return `${host}:${port}`
}

/** What such a permission stands for now: nothing where the config says nothing, or nothing that could be granted. */
export function fromConfig(text: string, config: unknown): string[] {
  const [, kind, place] = pattern.exec(text) ?? []
  if (!kind) return []
  const found = place!.split('.').reduce<unknown>((at, key) => {
    const isIn = typeof at === 'object' && at !== null && Object.hasOwn(at, key)
    return isIn ? (at as Record<string, unknown>)[key] : undefined
  }, config)
  return [found].flat().flatMap(value => {
    try {
      const permission = `${kind}:${kind === 'network' ? placeOf(String(value)) : value}`
      return typeof value === 'string' && !pattern.test(permission) && parsePermission(permission)
        ? [permission]
        : []
    } catch {
      return []
    }
  })
}

/**
 * Reads what is stored in config files, anew only where one has changed. A default of the author's is not there: nobody
 * but the operator says where an extension may go.
 */
export function createConfigured(configDir: string): (id: string) => unknown {
  const known = new Map<string, { mark: string; config: unknown }>()
  return id => {
    const file = join(configDir, 'extension-config', `${id}.json`)
    try {
      const { mtimeMs, size, ino } = statSync(file)
      const mark = `${mtimeMs} ${size} ${ino}`
      if (known.get(id)?.mark !== mark)
        known.set(id, { mark, config: JSON.parse(readFileSync(file, 'utf8')) })
      return known.get(id)!.config
    } catch {
      return undefined
    }
  }
}
