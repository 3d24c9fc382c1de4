// The parts of the realms that can be told alone: what a stranger's schema becomes, and what becomes of a stranger that breaks.
import { createContext, runInContext } from 'node:vm'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as zod from 'zod'
import { z } from 'zod'
import { createFlow } from '../../kernel/realms/flow.ts'
import { readBundle } from '../../kernel/realms/modules.ts'
import { type History, judge } from '../../kernel/realms/policy.ts'
import { isStarved, waitedMsOf } from '../../kernel/realms/requests.ts'
import { revive, reviveText } from '../../kernel/realms/schemas.ts'

const describe = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input' })

test('plain schemas check the same after they have crossed', () => {
  const schema = z.object({
    name: z.string().min(2).max(5),
    kind: z.enum(['a', 'b']),
    size: z.number().int().min(0).optional(),
    tags: z.array(z.string()).max(2),
    inner: z.union([z.object({ x: z.number() }), z.null()]),
    more: z.record(z.string(), z.boolean()),
  })
  const revived = revive(describe(schema))
  const part = fc.oneof(fc.string({ maxLength: 6 }), fc.integer(), fc.boolean(), fc.constant(null))
  const shaped = fc.record(
    {
      name: fc.oneof(fc.string({ minLength: 1, maxLength: 6 }), part),
      kind: fc.constantFrom('a', 'b', 'c'),
      size: fc.oneof(fc.integer({ min: -2, max: 5 }), part),
      tags: fc.array(part, { maxLength: 3 }),
      inner: fc.oneof(fc.record({ x: part }), fc.constant(null)),
      more: fc.dictionary(fc.string({ minLength: 1, maxLength: 3 }), fc.boolean(), { noNullPrototype: true }),
    },
    { requiredKeys: ['name', 'kind', 'tags', 'inner', 'more'] },
  )
  fc.assert(
    fc.property(shaped, value => {
      expect(revived.safeParse(value).success).toBe(schema.safeParse(value).success)
    }),
  )
})

test('a schema that would cost too much is refused or left out, whatever it says', () => {
  const doubling = (levels: number): object => ({
    $defs: Object.fromEntries(
      Array.from({ length: levels }, (_, i) => [
        `d${i}`,
        i + 1 < levels
          ? { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }
          : { type: 'string' },
      ]),
    ),
    $ref: '#/$defs/d0',
  })
  expect(() => revive(doubling(30))).toThrow('over 64 alternatives')
  const wide = {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [i, {}])),
  }
  expect(() => revive(wide)).toThrow('over 2000 parts')
  // A regular expression of a stranger never runs here.
  const evil = revive({ type: 'string', pattern: '^(a+)+$', format: 'regex' })
  expect(evil.safeParse(`${'a'.repeat(60)}b`).success).toBe(true)
  expect(() => revive({ $ref: '#/$defs/nothing' })).toThrow('which is not there')
  expect(() => revive('x')).toThrow('must be JSON Schema')
  expect(revive(describe(z.object({ any: z.json() }))).safeParse({ any: [[{ a: 1 }]] }).success).toBe(true)
})

test('any JSON gives a schema or an error, soon', () => {
  const key = fc.constantFrom(
    'type',
    'properties',
    'items',
    'anyOf',
    'allOf',
    '$ref',
    '$defs',
    'not',
    'enum',
    'required',
    'const',
  )
  const { tree } = fc.letrec(tie => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom('object', 'array', 'string', 'number', 'null', '#', '#/$defs/a', true, false, null, 1),
      fc.dictionary(key, tie('tree'), { maxKeys: 4, noNullPrototype: true }),
      fc.array(tie('tree'), { maxLength: 3 }),
    ),
  }))
  fc.assert(
    fc.property(tree, fc.jsonValue(), (schema, data) => {
      let revived: z.ZodType
      try {
        revived = revive(schema)
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
        return
      }
      expect(typeof revived.safeParse(data).success).toBe('boolean')
    }),
  )
})

test('parts of an address are text, whatever they mean', () => {
  const schema = reviveText(
    describe(z.object({ n: z.number().max(9), m: z.int().optional(), s: z.string() })),
  )
  expect(schema.parse({ n: '7', s: '1' })).toEqual({ n: 7, s: '1' })
  expect(schema.parse({ n: '7', m: '2', s: '1' })).toEqual({ n: 7, m: 2, s: '1' })
  for (const n of ['10', 'x', 'NaN']) expect(schema.safeParse({ n, s: '' }).success).toBe(false)
})

test('who ends by its own doing starts again later and later, then not at all; neighbours at once', () => {
  const history: History = { isAlone: false, endings: [], restarts: 0 }
  const step = (ending: 'isolate' | 'process' | 'neighbour', now: number) =>
    judge(history, ending, 'it broke', now, 0.5)
  expect(step('neighbour', 0)).toEqual({ againInMs: 0 })
  expect([1, 2, 3, 4].map(now => step('isolate', now))).toEqual(
    [100, 1000, 2000, 4000].map(againInMs => ({ againInMs })),
  )
  expect(step('isolate', 5)).toEqual({
    quarantine: 'ended 5 times within 10 minutes, the last time because it broke; switch it on to try again',
  })
  expect(history.restarts).toBe(5)
  // Long ago is forgotten.
  expect(step('isolate', 1e6)).toEqual({ againInMs: 100 })
  expect(step('isolate', 2e6)).toEqual({ againInMs: 100 })
  expect(step('process', 2e6 + 1)).toEqual({ againInMs: 1000 })
  expect(history.isAlone).toBe(true)
  expect(step('process', 9e6)).toMatchObject({
    quarantine: expect.stringMatching(/^brought a sandbox of its own down/),
  })
})

test('who was cut because the machine had no time for it starts again at once, and it does not count', () => {
  const history: History = { isAlone: false, endings: [], restarts: 0 }
  for (let at = 0; at < 9; at++) expect(judge(history, 'starved', 'busy', at, 0.5)).toEqual({ againInMs: 0 })
  expect(history).toEqual({ isAlone: false, endings: [], restarts: 9 })
  expect(isStarved(500, 600, 400)).toBe(true)
  // Whoever runs, or sleeps without a need, has itself to blame.
  expect([isStarved(500, 600, 300), isStarved(500, 600, 0)]).toEqual([false, false])
  expect(waitedMsOf('17000000 2500000 9\n')).toBe(2.5)
  expect(['', '\n', 'x'].map(waitedMsOf)).toEqual([0, 0, 0])
})

test('a process of its own starts again more and more slowly, then not by itself', () => {
  const history: History = { isAlone: false, endings: [], restarts: 0 }
  const waits = [1, 2, 3, 4].map(now => judge(history, 'child', 'it broke', now, 1))
  expect(waits).toEqual([1000, 1250, 2500, 5000].map(againInMs => ({ againInMs })))
  expect(judge(history, 'child', 'it broke', 5, 1)).toHaveProperty('quarantine')
  for (let at = 0; at < 4; at++) judge(history, 'child', 'it broke', 1e9 + at * 1e6, 0)
  expect(history).toMatchObject({ isAlone: false, restarts: 8 })
})

test('a flow lets so many through in a second, and tells of the rest', async () => {
  const leftOut: number[] = []
  const may = createFlow(3, count => leftOut.push(count))
  expect(Array.from({ length: 5 }, may)).toEqual([true, true, true, false, false])
  await new Promise(done => setTimeout(done, 1050))
  expect([may(), leftOut]).toEqual([true, [2]])
})

test('zod in an isolate has all that it has outside, but for what is left out by intent', async () => {
  const { script } = await readBundle()
  const context = createContext({})
  runInContext(script, context)
  const inner = runInContext('svcHostZod', context)
  const kinds = (all: object): string[] => Object.entries(all).map(([name, it]) => `${name} ${typeof it}`)
  const missing = (outer: object, inside: object): string[] => {
    const has = new Set(kinds(inside))
    return kinds(outer).filter(each => !has.has(each))
  }
  const leftOut = /^(INVALID|fromJSONSchema|withParser|compile|compileFn|ZodCompile\w+) /
  expect(missing(zod, inner).filter(each => !leftOut.test(each))).toEqual([])
  for (const part of ['core', 'util', 'iso', 'coerce', 'regexes'] as const)
    expect(missing(z[part], inner[part]).filter(each => !leftOut.test(each))).toEqual([])
  expect(inner.z.object({ a: inner.z.int() }).safeParse({ a: 1.5 }).error.issues[0].message).toBe(
    z.object({ a: z.int() }).safeParse({ a: 1.5 }).error!.issues[0]!.message,
  )
  // Else the rewriting has missed what it is for, and each isolate would pay for it.
  expect(script).not.toMatch(/__createBinding|getOwnPropertyNames\(exports\)/)
})
