// The checked-in OpenAPI document is the served one. Reason: clients are generated from the copy. Exception: its
// release number. When it has drifted on purpose, run test/contract/openapi.write.ts and look at the difference.
import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { copyPath, normalised, servedDocument } from './openapi.ts'

let served: Awaited<ReturnType<typeof servedDocument>>
beforeAll(async () => {
  served = await servedDocument()
})

interface Operation {
  operationId?: string
  tags?: string[]
  summary?: string
  parameters?: { name: string; in: string }[]
  responses: Record<string, { description?: string }>
}
const operations = (): [string, Operation][] =>
  Object.entries(served['paths'] as Record<string, Record<string, Operation>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as [string, Operation],
    ),
  )

test(`${copyPath} is what a host serves`, () => {
  expect(normalised(served)).toEqual(normalised(JSON.parse(readFileSync(copyPath, 'utf8'))))
})

// Reason: generated clients name their functions and groups by these.
test('every operation has an id of its own, a tag, a summary and an answer', () => {
  const all = operations()
  expect(all.length).toBeGreaterThan(8)
  const ids = all.map(([, { operationId }]) => operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const [name, { operationId, tags, summary, responses }] of all) {
    expect(operationId, name).toMatch(/^[a-z][a-zA-Z]+$/)
    expect(tags, name).toHaveLength(1)
    expect(summary, name).toMatch(/\S/)
    expect(
      Object.keys(responses).some(status => status.startsWith('2')),
      name,
    ).toBe(true)
    for (const [status, { description }] of Object.entries(responses))
      expect(description, `${name} ${status}`).toMatch(/\S/)
  }
})

test('every reference leads somewhere, and every path parameter is described', () => {
  const { schemas } = served['components'] as { schemas: Record<string, unknown> }
  const references = [...JSON.stringify(served).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)]
  expect(references.length).toBeGreaterThan(0)
  for (const [, name] of references) expect(schemas).toHaveProperty([name!])
  expect(JSON.stringify(served)).not.toMatch(/"\$ref":"#\/\$defs/)
  for (const [name, { parameters = [] }] of operations()) {
    const inPath = [...name.matchAll(/\{(\w+)\}/g)].map(match => match[1])
    expect(
      parameters.filter(p => p.in === 'path').map(p => p.name),
      name,
    ).toEqual(inPath)
  }
})
