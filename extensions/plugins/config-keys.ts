// Keys and values of a config as they are typed on a command line: `paint.colour=red`, by what the schema says.
import { plain, UsageError } from 'svc-host/api/ctl'
import type { ConfigRecord } from './config-record.ts'
import { below, facetsAt, facetsOf, isRecord, type Json, mapped, type Path } from './config-schema.ts'

/** A map whose values hold no keys: whatever comes is one key of it. */
function isFlatMap(facets: readonly Json[], schema: unknown): boolean {
  const more = facets.map(({ additionalProperties }) => additionalProperties).filter(isRecord)
  const types = facetsOf(more, schema).flatMap(({ type }) => type)
  const isFlat = (type: unknown): boolean => typeof type === 'string' && !['object', 'array'].includes(type)
  return types.length > 0 && types.every(isFlat)
}

/** Dots part keys, except where a key has dots itself. */
export function pathOf(text: string, { schema, values }: Pick<ConfigRecord, 'schema' | 'values'>): Path {
  const path: string[] = []
  let rest = text.split('.')
  let facets = facetsOf([schema], schema)
  let value: unknown = values
  while (rest.length > 0) {
    const isKnown = (key: string): boolean =>
      [value, ...facets.map(({ properties }) => properties)].some(
        each => isRecord(each) && Object.hasOwn(each, key),
      )
    const lengths = rest.map((_, i) => rest.length - i)
    const length =
      lengths.find(n => isKnown(rest.slice(0, n).join('.'))) ?? (isFlatMap(facets, schema) ? rest.length : 1)
    const key = rest.slice(0, length).join('.')
    if (key === '') throw new UsageError(`${plain(text)}: expected a key, such as port or paint.colour`)
    path.push(key)
    facets = facetsOf(below(facets, key), schema)
    value = getAt(value, [key])
    rest = rest.slice(length)
  }
  return path
}

export const getAt = (values: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Json)[key]
        : undefined,
    values,
  )

/** A copy with the value in its place; what lies on the way and is not there is made. */
export function withValue(values: unknown, [key, ...rest]: Path, value: unknown, done: Path = []): unknown {
  if (key === undefined) return value
  const inner = (): unknown => withValue(getAt(values, [key]), rest, value, [...done, key])
  if (values === undefined) return { [key]: inner() }
  if (Array.isArray(values)) {
    if (!/^\d{1,6}$/.test(key) || Number(key) > values.length)
      throw new UsageError(
        `${done.join('.')} is a list of ${values.length}; "${plain(key)}" is no place in it`,
      )
    return Object.assign([...values], { [key]: inner() })
  }
  if (!isRecord(values))
    throw new UsageError(`${done.join('.')} is ${JSON.stringify(values)} and holds no keys`)
  return Object.fromEntries(new Map(Object.entries(values)).set(key, inner()))
}

/** A copy without the value; what is empty then goes too. */
export function withoutValue(values: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined || getAt(values, [key]) === undefined) return values
  const inner = rest.length === 0 ? undefined : withoutValue(getAt(values, [key]), rest)
  const isGone = inner === undefined || (isRecord(inner) && Object.keys(inner).length === 0)
  if (Array.isArray(values))
    return isGone
      ? values.filter((_, at) => `${at}` !== key)
      : values.map((each, at) => (`${at}` === key ? inner : each))
  return Object.fromEntries(
    Object.entries(values as Json).flatMap(([name, each]) =>
      name !== key ? [[name, each]] : isGone ? [] : [[name, inner]],
    ),
  )
}

/** Refuses what nobody reads on the way to `path`, with what is read there. */
export function checkRead(
  values: unknown,
  path: Path,
  { id, schema }: Pick<ConfigRecord, 'id' | 'schema'>,
): void {
  mapped(schema, values, ({ path: at, isUnread }) => {
    if (!isUnread || at.some((key, i) => key !== path[i])) return undefined
    const names = facetsAt(schema, at.slice(0, -1)).flatMap(({ properties }) =>
      isRecord(properties) ? Object.keys(properties) : [],
    )
    const taken = [...at.slice(0, -1), names.length ? [...new Set(names)].join(', ') : 'nothing'].join('.')
    const remedy = 'check the spelling; --force stores it all the same'
    throw new UsageError(`nobody reads ${plain(at.join('.'))} of ${id}, which takes ${taken}; ${remedy}`)
  })
}

const switches: Readonly<Record<string, boolean>> = {
  ...{ true: true, on: true, yes: true },
  ...{ false: false, off: false, no: false },
}
const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
const expected: Readonly<Record<string, string>> = {
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
  array: 'a list as JSON, such as ["a","b"]',
  object: 'an object as JSON, such as {"a":1}',
}

/** Reads the text of a value as the schema has it; what is no JSON of the right type is text where that may be. */
export function readValue(
  key: string,
  text: string,
  record: Pick<ConfigRecord, 'schema' | 'values'>,
): unknown {
  const types = new Set(
    facetsAt(record.schema, pathOf(key, record)).flatMap(
      ({ type }) => (type as string | string[] | undefined) ?? [],
    ),
  )
  if (types.size === 1 && types.has('string')) return text
  const word = switches[text.toLowerCase()]
  if (types.has('boolean') && word !== undefined) return word
  try {
    const value: unknown = JSON.parse(text)
    const type = typeOf(value)
    if (types.size === 0 || types.has(type) || (type === 'number' && types.has('integer'))) return value
  } catch {}
  if (types.size === 0 || types.has('string')) return text
  const wanted = [...types].map(type => expected[type] ?? type).join(' or ')
  throw new UsageError(`${key} is "${plain(text)}": expected ${wanted}`)
}

const merged = (under: unknown, over: unknown): unknown =>
  isRecord(under) && isRecord(over)
    ? {
        ...under,
        ...Object.fromEntries(Object.entries(over).map(([key, value]) => [key, merged(under[key], value)])),
      }
    : (over ?? under)

/** What the extension is given, as far as its schema tells. */
export const inForce = ({ defaults, values, overrides }: ConfigRecord): unknown =>
  overrides.reduce<unknown>((all, { path, value }) => withValue(all, path, value), merged(defaults, values))

export interface Row {
  readonly path: Path
  readonly value: unknown
  /** `default`, `file`, or the flag or variable that sets it. */
  readonly from: string
  readonly isUnread: boolean
}

/** Every value that holds, with where it is from; lists are one value. */
export function rowsOf({ schema, values, defaults, overrides, unknown }: ConfigRecord): Row[] {
  const rows = new Map<string, Row>()
  const isUnread = (path: Path): boolean => unknown.some(each => each.every((key, at) => path[at] === key))
  const add = (of: unknown, from: string): void => {
    mapped(null, of, ({ path, value }) => {
      const isLeaf = !isRecord(value) || (path.length > 0 && Object.keys(value).length === 0)
      if (!isLeaf) return undefined
      rows.set(JSON.stringify(path), { path, value, from, isUnread: isUnread(path) })
      return value ?? null
    })
  }
  add(defaults, 'default')
  add(values, 'file')
  for (const { path, value, source } of overrides)
    rows.set(JSON.stringify(path), { path, value, from: source, isUnread: false })
  const named = facetsOf([schema], schema).flatMap(({ properties }) =>
    isRecord(properties) ? Object.keys(properties) : [],
  )
  for (const key of named)
    if (![...rows.values()].some(({ path }) => path[0] === key))
      rows.set(JSON.stringify([key]), { path: [key], value: undefined, from: 'not set', isUnread: false })
  return [...rows.values()].sort((a, b) => (a.path.join('.') < b.path.join('.') ? -1 : 1))
}
