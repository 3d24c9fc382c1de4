// Reads the TypeScript of the checkout for the house tests: which files there are, and what they import.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

export interface Source {
  path: string
  text: string
}

export interface Import {
  from: string
  /** A path in the checkout, or the name of a package or a `node:` module. */
  to: string
  isTypeOnly: boolean
}

const skipped = /(^|\/)(node_modules|dist|build|\.cache)(\/|$)/

/** Every TypeScript source that people write, in these top folders. */
export const readSources = (...tops: string[]): Source[] =>
  tops.flatMap(top =>
    globSync(`${top}/**/*.ts`, { exclude: name => skipped.test(name) })
      .filter(path => !skipped.test(path) && !path.endsWith('.generated.ts'))
      .sort()
      .map(path => ({ path, text: readFileSync(path, 'utf8') })),
  )

export const isTest = (path: string): boolean => path.startsWith('test/') || path.endsWith('.test.ts')

export const linesOf = ({ text }: Source): number => text.split('\n').length - (text.endsWith('\n') ? 1 : 0)

const statement = /^\s*(?:import|export)\s+(type\s)?(?:[\w*{}\s,$]+?\sfrom\s+)?['"]([^'"\n]+)['"]/gm
const expression = /\bimport\(\s*['"]([^'"\n]+)['"]/g

/** What a source imports, the package's own published names resolved to the files they stand for. */
export function importsOf({ path, text }: Source): Import[] {
  const found = [
    ...[...text.matchAll(statement)].map(m => ({ name: m[2]!, isTypeOnly: m[1] !== undefined })),
    ...[...text.matchAll(expression)].map(m => ({ name: m[1]!, isTypeOnly: false })),
  ]
  return found.map(({ name, isTypeOnly }) => ({ from: path, to: resolve(path, name), isTypeOnly }))
}

const own = new Map([
  ['sdk', 'sdk/index.ts'],
  ...['client', 'egress', 'stream', 'testing'].map(n => [n, `sdk/${n}/index.ts`] as const),
] as const)

function resolve(from: string, name: string): string {
  if (name.startsWith('.')) return normalize(join(dirname(from), name))
  if (!name.startsWith('svc-host/')) return name
  if (/^svc-host\/(package|openapi)\.json$/.test(name))
    return name === 'svc-host/package.json' ? 'package.json' : 'sdk/openapi.json'
  const [first = '', extension] = name.slice('svc-host/'.length).split('/')
  return own.get(first) ?? (first === 'api' && extension ? `extensions/${extension}/api.ts` : name)
}

/** The name of the package that a specifier means, or undefined for a path in the checkout. */
export const packageOf = (to: string): string | undefined =>
  existsSync(to) ? undefined : /^(?:@[^/]+\/[^/]+|[^/]+)/.exec(to)?.[0]
