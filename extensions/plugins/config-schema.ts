// Configs beside their JSON Schema: which part says what about a value, what it is by default, and what is secret.

export type Json = { readonly [key: string]: unknown }
export type Path = readonly string[]

/** How far defaults are looked for in a schema that repeats itself. */
const depthLimit = 8
const lookLimit = 2000
/** Levels that a config may have. */
export const configDepth = 32

export const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const own = (record: unknown, key: string): unknown =>
  isRecord(record) && Object.hasOwn(record, key) ? record[key] : undefined

function resolve(root: unknown, pointer: unknown): unknown {
  if (typeof pointer !== 'string' || !pointer.startsWith('#')) return undefined
  const keys = pointer.slice(1).split('/').filter(Boolean)
  return keys.reduce<unknown>((at, key) => own(at, key.replaceAll('~1', '/').replaceAll('~0', '~')), root)
}

/** Every part of a schema that may say something about one value: references are followed, alternatives opened. */
export function facetsOf(nodes: readonly unknown[], root: unknown): Json[] {
  const facets = new Set<Json>()
  const add = (node: unknown): void => {
    if (!isRecord(node) || facets.has(node)) return
    facets.add(node)
    const { $ref, anyOf, oneOf, allOf } = node
    for (const part of [resolve(root, $ref), anyOf, oneOf, allOf].flat()) add(part)
  }
  nodes.forEach(add)
  return [...facets]
}

/** What of these is said about the value under `key`. */
export function below(facets: readonly Json[], key: string): unknown[] {
  const index = /^\d+$/.test(key) ? Number(key) : -1
  return facets.flatMap(({ properties, additionalProperties, items, prefixItems }) => [
    own(properties, key) ?? additionalProperties,
    (Array.isArray(prefixItems) ? prefixItems[index] : undefined) ?? (index < 0 ? undefined : items),
  ])
}

/** Those that say something about the value at `path`. */
export const facetsAt = (schema: unknown, path: Path): Json[] =>
  path.reduce((facets, key) => facetsOf(below(facets, key), schema), facetsOf([schema], schema))

const isObject = ({ type, properties }: Json): boolean => type === 'object' || properties !== undefined
/** Whether nobody reads this key of an object. */
function isUnread(facets: readonly Json[], key: string): boolean {
  const objects = facets.filter(isObject)
  const isTaken = ({ properties, additionalProperties: more, patternProperties }: Json): boolean =>
    own(properties, key) !== undefined || more === true || isRecord(more) || patternProperties !== undefined
  return objects.length > 0 && !objects.some(isTaken)
}

export interface Spot {
  readonly path: Path
  readonly facets: readonly Json[]
  readonly value: unknown
  readonly isUnread: boolean
}
/** Makes a copy of values with each replaced by what `replace` answers; undefined: it is copied, and what is in it looked at. */
export function mapped(schema: unknown, values: unknown, replace: (spot: Spot) => unknown): unknown {
  const walk = (value: unknown, nodes: readonly unknown[], path: Path, isUnreadKey: boolean): unknown => {
    const facets = facetsOf(nodes, schema)
    const replaced = replace({ path, facets, value, isUnread: isUnreadKey })
    if (replaced !== undefined) return replaced
    if (path.length > configDepth) return value
    if (Array.isArray(value))
      return value.map((each, at) => walk(each, below(facets, `${at}`), [...path, `${at}`], false))
    if (!isRecord(value)) return value
    const inner = ([key, each]: [string, unknown]): [string, unknown] => [
      key,
      walk(each, below(facets, key), [...path, key], isUnread(facets, key)),
    ]
    return Object.fromEntries(Object.entries(value).map(inner))
  }
  return walk(values, [schema], [], false)
}

export const isSecret = ({ facets }: Pick<Spot, 'facets'>): boolean =>
  facets.some(({ writeOnly }) => writeOnly === true)

/** What holds where nothing is stored. */
export function defaultsOf(schema: unknown): Json {
  let looks = 0
  const look = (nodes: readonly unknown[], isRequired: boolean, depth: number): unknown => {
    const facets = facetsOf(nodes, schema)
    const given = facets.find(facet => Object.hasOwn(facet, 'default'))?.['default']
    const keys = facets.flatMap(({ properties }) => (isRecord(properties) ? Object.keys(properties) : []))
    const isThere = isRecord(given) || (given === undefined && isRequired)
    looks += 1
    if (!isThere || keys.length === 0 || depth > depthLimit || looks > lookLimit) return given
    const required = new Set(
      facets.flatMap(facet => (Array.isArray(facet['required']) ? facet['required'] : [])),
    )
    const inner = keys.map(key => [
      key,
      own(given, key) ?? look(below(facets, key), required.has(key), depth + 1),
    ])
    const known = inner.filter(([, value]) => value !== undefined)
    return known.length > 0 || given !== undefined ? { ...given, ...Object.fromEntries(known) } : undefined
  }
  const found = look([schema], true, 0)
  return isRecord(found) ? found : {}
}
