// The operating system's name, for people and as a chain from generic to specific.
import { readFile } from 'node:fs/promises'

export interface OsName {
  /** `linux/<family>/<id>`, as far as it is known. */
  readonly chain: string
  readonly name: string
}

/** Reads the `KEY=value` lines of an os-release file (freedesktop.org), quotes and escapes undone. */
export function parseOsRelease(text: string): Record<string, string> {
  const values: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const [, key, raw] = /^\s*([A-Z][A-Z0-9_]*)=(.*?)\s*$/.exec(line) ?? []
    if (key === undefined || raw === undefined) continue
    const quoted = /^"(.*)"$|^'(.*)'$/.exec(raw)
    values[key] = (quoted ? (quoted[1] ?? quoted[2]!) : raw).replace(/\\(["'`$\\])/g, '$1')
  }
  return values
}

const word = (text: string | undefined): string => (text ?? '').toLowerCase().replace(/[^a-z0-9._-]/g, '')

/** `ID_LIKE` lists the closest relative first, so that its last word is the family. */
export function osName(release: Readonly<Record<string, string>>): OsName {
  const id = word(release['ID'])
  const family = word((release['ID_LIKE'] ?? '').trim().split(/\s+/).at(-1))
  const chain = ['linux', family, id].filter((part, i, parts) => part !== '' && parts.indexOf(part) === i)
  return { chain: chain.join('/'), name: release['PRETTY_NAME'] || release['NAME'] || 'Linux' }
}

/** The name of this machine's system; anything unreadable makes it plainer, never an error. */
export async function readOs(): Promise<OsName> {
  if (process.platform === 'win32') return { chain: 'windows', name: 'Windows' }
  if (process.platform === 'darwin') return { chain: 'macos', name: 'macOS' }
  const text = await readFile('/etc/os-release', 'utf8')
    .catch(() => readFile('/usr/lib/os-release', 'utf8'))
    .catch(() => '')
  return osName(parseOsRelease(text))
}
