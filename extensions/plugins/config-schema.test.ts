// Schemas come from strangers: whatever they say, looking at a config by them ends soon, and changes nothing of it.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { defaultsOf, facetsAt, isSecret, mapped } from './config-schema.ts'

const words = 'type properties items anyOf allOf required default additionalProperties $ref $defs a b'.split(
  ' ',
)
const keyed = fc.letrec(tie => ({
  node: fc.oneof(
    { maxDepth: 5 },
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom('#', '#/$defs/a', '#/properties/b', '#/a~1b', 'object', 'string', ['a', 'b']),
    fc.array(tie('node'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...words), tie('node'), { maxKeys: 5 }),
  ),
})).node

test('no schema makes looking at values throw, or changes them', () => {
  fc.assert(
    fc.property(keyed, fc.jsonValue(), (schema, values) => {
      const json = JSON.parse(JSON.stringify(values))
      expect(mapped(schema, json, () => undefined)).toEqual(json)
      expect(typeof defaultsOf(schema)).toBe('object')
      expect(Array.isArray(facetsAt(schema, ['a', '0', 'b']))).toBe(true)
    }),
  )
})

test('a schema that is made of itself many times over is looked at for a moment only', () => {
  const keys = Array.from({ length: 30 }, (_, i) => `k${i}`)
  const self = {
    type: 'object',
    required: keys,
    properties: Object.fromEntries(keys.map(key => [key, { $ref: '#' }])),
  }
  const began = process.cpuUsage().user
  expect(defaultsOf(self)).toEqual({})
  const many = {
    anyOf: Array.from({ length: 60 }, () => ({ $ref: '#' })),
    allOf: [{ $ref: '#' }, { $ref: '#' }],
  }
  expect(facetsAt(many, ['a'])).toEqual([])
  expect(process.cpuUsage().user - began).toBeLessThan(2_000_000)
})

test('a secret is one wherever the schema says so', () => {
  const secret = { type: 'string', writeOnly: true }
  const schema = {
    properties: {
      plain: { type: 'string' },
      either: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/key' }] },
      list: { type: 'array', items: { properties: { key: secret } } },
      map: { additionalProperties: secret },
      pair: { prefixItems: [{ type: 'string' }, secret] },
    },
    $defs: { key: secret },
  }
  const values = {
    ...{ plain: 'open', either: 'shut', list: [{ key: 'shut', name: 'open' }] },
    ...{ map: { any: 'shut' }, pair: ['open', 'shut'] },
  }
  const shown = mapped(schema, values, spot => (isSecret(spot) ? 'hidden' : undefined))
  expect(shown).toEqual(JSON.parse(JSON.stringify(values).replaceAll('shut', 'hidden')))
})
