// What the operator has set beside the config files: flags, environment and host.env.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Found, Setting } from './discover.ts'
import { messageOf, UsageError } from './errors.ts'

export type Variables = Readonly<Record<string, string | undefined>>
export type Flags = Readonly<Record<string, string | boolean | undefined>>

/** Reads `KEY=value` lines; throws a usage error that names file and line. */
export function parseHostEnv(text: string, name = 'host.env'): Record<string, string> {
  const values: Record<string, string> = {}
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim()
    if (line === '' || line.startsWith('#')) continue
    const [, key, value] = /^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/.exec(line) ?? []
    if (key === undefined)
      throw new UsageError(`${name}, line ${index + 1}: expected KEY=value or a # comment`)
    values[key] = value!
  }
  return values
}

export async function readHostEnv(configDir: string): Promise<Record<string, string>> {
  const file = join(configDir, 'host.env')
  const text = await readFile(file, 'utf8').catch(error => {
    if (error.code === 'ENOENT') return ''
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`)
  })
  return parseHostEnv(text, file)
}

const switches: Readonly<Record<string, boolean>> = Object.fromEntries(
  ['1', 'on', 'true', 'yes']
    .map(word => [word, true])
    .concat(['0', 'off', 'false', 'no'].map(word => [word, false])),
)

const expectations = {
  boolean: '1, on, true, yes or 0, off, false, no',
  port: 'a port from 0 to 65535 (0: any that is free)',
  integer: 'a whole number',
}

/** Reads the text of a setting, or throws what is expected. */
export function parseSetting({ type, values, min, max }: Setting, text: string): string | number | boolean {
  const bounds = `${min === undefined ? '' : `, at least ${min}`}${max === undefined ? '' : `, at most ${max}`}`
  const refuse = (expected: string): never => {
    throw new Error(`expected ${expected}`)
  }
  if (type === 'boolean') return switches[text.toLowerCase()] ?? refuse(expectations.boolean)
  if (type === 'port' || type === 'integer') {
    const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    const low = min ?? (type === 'port' ? 0 : -Infinity)
    const high = max ?? (type === 'port' ? 65535 : Infinity)
    return number >= low && number <= high ? number : refuse(expectations[type] + bounds)
  }
  if (values && !values.includes(text)) return refuse(`one of ${values.join(', ')}`)
  if (text.length < (min ?? 0) || text.length > (max ?? Infinity)) {
    return refuse(`text of${bounds.slice(1)} characters`)
  }
  return text
}

/** One value set from outside the config file, and where it came from. */
export interface Override {
  readonly at: readonly string[]
  readonly value: unknown
  readonly source: string
}

/** Where the operator may have set a value, besides the config file of an extension. */
export interface Sources {
  readonly flags: Flags
  readonly env: Variables
  readonly hostEnv: Variables
}

/** What was given for a setting: by flag before environment before `host.env`. A flag without a value is true. */
export function givenFor(
  { flag, env }: Pick<Setting, 'flag' | 'env'>,
  { flags, env: variables, hostEnv }: Sources,
): { value: string | boolean; source: string } | undefined {
  const candidates = [
    { value: flag && flags[flag], source: `--${flag}` },
    { value: env && variables[env], source: env },
    { value: env && hostEnv[env], source: `${env} in host.env` },
  ]
  for (const { value, source } of candidates)
    if (value !== undefined && value !== '') return { value, source: source! }
  return undefined
}

/** The overrides of one extension. Throws a usage error. */
export function overridesOf(found: Found, sources: Sources): Override[] {
  return Object.entries(found.manifest?.settings ?? {}).flatMap(([key, setting]): Override[] => {
    const given = givenFor(setting, sources)
    if (!given) return []
    const { value, source } = given
    const at = (setting.config ?? key).split('.')
    if (typeof value === 'boolean') return [{ at, value: value !== setting.flag!.startsWith('no-'), source }]
    try {
      return [{ at, value: parseSetting(setting, value), source }]
    } catch (error) {
      throw new UsageError(`${source} is "${value}": ${messageOf(error)}`)
    }
  })
}

export const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Puts a value in its place; what lies on the way is copied. */
export const set = (
  target: Record<string, unknown>,
  [head, ...rest]: readonly string[],
  value: unknown,
): void => {
  if (rest.length === 0) target[head!] = value
  else {
    const inner = isPlain(target[head!]) ? { ...(target[head!] as object) } : {}
    target[head!] = inner
    set(inner, rest, value)
  }
}
