// An author's folder, beside the package that is made of it: what was left out, is out of date or open to everybody, and
// what the code does that the manifest does not ask for.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Report } from './inspect.ts'

const isOurs = (path: string): boolean => !/(^|\/)(node_modules|\.git)(\/|$)/.test(path)

/** Calls by which code shows what it will ask for. */
const uses: readonly [call: RegExp, kind: string, what: string][] = [
  [/\.route\(/, 'routes', 'answers requests'],
  [/(?<![\w.$])fetch\(/, 'network:', 'calls fetch'],
  [/\.files\.(write|remove|makeFolder)\(/, 'write:', 'writes files'],
  [/\.files\.(read|readText|list|stat)\(/, 'read:', 'reads files'],
  [/\bctx\.exec\(/, 'exec:', 'runs programs'],
  [/\bctx\.api\(/, 'api:', 'calls the API'],
  [/\bctx\.tap\(/, 'hooks:', 'taps a hook point'],
  [/\bctx\.on\(/, 'events:', 'listens to events'],
]

/** Remarks on what a text of code does and nothing asks for; an author who knows better may ignore them. */
export function unasked(code: string, permissions: readonly string[], file: string): string[] {
  const plain = code.replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, comment => comment.replaceAll(/[^\n]/g, ' '))
  const asks = (kind: string): boolean =>
    permissions.some(text => text.startsWith(kind) || (kind === 'read:' && text.startsWith('write:')))
  return uses.flatMap(([call, kind, what]) => {
    const at = plain.search(call)
    if (at < 0 || asks(kind)) return []
    const line = plain.slice(0, at).split('\n').length
    return [
      `${file}:${line} ${what}, but extension.json does not ask for "${kind}${kind.endsWith(':') ? '…' : ''}"`,
    ]
  })
}

export interface Look {
  readonly refusals: readonly string[]
  readonly remarks: readonly string[]
}

/** Looks at the folder; `packed` are the paths that the package has, undefined where it could not be packed. */
export async function lookAt(
  folder: string,
  report: Report,
  packed: readonly string[] | undefined,
): Promise<Look> {
  const refusals: string[] = []
  const remarks: string[] = []
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.map(each => relative(folder, join(each.parentPath, each.name))).filter(isOurs)
  if (packed && paths.includes('extension.json') && !packed.includes('extension.json'))
    refusals.push(
      'extension.json is in the folder, but not in the package; name it under "files" in package.json',
    )
  const times = new Map<string, number>()
  for (const path of paths) {
    const found = await stat(join(folder, path)).catch(() => undefined)
    if (!found) continue
    times.set(path, found.mtimeMs)
    const isOpen = (found.mode & 0o002) !== 0 && (packed?.includes(path) ?? true)
    if (isOpen) {
      const list = report.found?.realm === 'unit' ? refusals : remarks
      list.push(`${path} may be changed by everybody on this machine; chmod o-w ${path}`)
    }
  }
  for (const [path, time] of times) {
    const made = path.replace(/\.ts$/, '.js')
    if (made !== path && (times.get(made) ?? time) < time)
      remarks.push(`${made} is older than ${path}; build it anew`)
    if (made !== path && !times.has(made) && report.refusals.some(why => why.startsWith(`${made} is not in`)))
      refusals.push(`${path} is not compiled yet; run npm run build first`)
  }
  const { found } = report
  if (found && (found.realm === 'isolate' || found.realm === 'process'))
    for (const path of (packed ?? []).filter(each => /\.m?js$/.test(each) && isOurs(each))) {
      const code = await readFile(join(folder, path), 'utf8').catch(() => '')
      remarks.push(...unasked(code, found.permissions, path))
    }
  return { refusals, remarks }
}
