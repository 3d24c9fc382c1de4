// JSON Schema of a stranger as a schema of the host: only what can be checked quickly, whatever the data.
import { z } from 'zod'

/** Nodes of a schema, with each reference counted as what it stands for. */
const nodeLimit = 2000
/** Alternatives, all together: data is tried against each of them. */
const choiceLimit = 64

type Json = { [key: string]: unknown }
const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Keywords that hold a regular expression, which can take for ever: the realm that declared them checks them itself. */
const left = new Set([
  'pattern',
  'patternProperties',
  'propertyNames',
  'format',
  'contentEncoding',
  'default',
])
const inner = new Set(['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains'])
const lists = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])

/** Writes references out, leaves out what is not checked here, and throws where a schema would cost too much. */
function tame(schema: unknown): Json | boolean {
  const definitions = isRecord(schema) && isRecord(schema['$defs']) ? schema['$defs'] : {}
  let nodes = 0
  let choices = 0
  const walk = (node: unknown, trail: readonly string[]): Json | boolean => {
    nodes += 1
    if (nodes > nodeLimit)
      throw new Error(`a schema of over ${nodeLimit} parts is too large to cross; make it smaller`)
    if (typeof node === 'boolean') return node
    if (!isRecord(node)) throw new Error('a schema that crosses must be JSON Schema')
    const { $ref } = node
    if (typeof $ref === 'string') {
      const name = /^#\/\$defs\/(.+)$/.exec($ref)?.[1]
      // What repeats itself is checked once here, and the rest where it was declared.
      if ($ref === '#' || (name !== undefined && trail.includes(name))) return {}
      if (name === undefined || !Object.hasOwn(definitions, name))
        throw new Error(`a schema refers to "${$ref.slice(0, 80)}", which is not there`)
      return walk(definitions[name], [...trail, name])
    }
    const out: Json = {}
    for (const [key, value] of Object.entries(node)) {
      if (key.startsWith('$') || left.has(key)) continue
      if (lists.has(key) && Array.isArray(value)) {
        if (key !== 'prefixItems') choices += value.length
        if (choices > choiceLimit)
          throw new Error(`a schema with over ${choiceLimit} alternatives cannot cross; use fewer`)
        out[key] = value.map(each => walk(each, trail))
      } else if (inner.has(key)) out[key] = walk(value, trail)
      else if (key === 'properties' && isRecord(value))
        out[key] = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, walk(each, trail)]))
      else out[key] = value
    }
    return out
  }
  return walk(schema, [])
}

/** The schema as the host checks with it; throws a sentence where it cannot be had. */
export function revive(schema: unknown): z.ZodType {
  return z.fromJSONSchema(tame(schema) as Parameters<typeof z.fromJSONSchema>[0])
}

/** Likewise for parts of an address, which are text whatever they mean. */
export function reviveText(schema: unknown): z.ZodType {
  const revived = revive(schema)
  if (!(revived instanceof z.ZodObject)) return revived
  return revived.extend(
    Object.fromEntries(Object.entries(revived.shape).map(([key, part]) => [key, fromText(part)])),
  )
}

function fromText(schema: unknown): z.ZodType {
  if (schema instanceof z.ZodOptional) return fromText(schema.unwrap()).optional()
  if (schema instanceof z.ZodNumber) return schema.clone({ ...schema.def, coerce: true })
  return schema as z.ZodType
}
