// The client library's generated types are those of the checked-in document and of the declared events. Reason: they
// are what integrators compile against. Exception: none; run test/contract/openapi.write.ts.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventKinds } from '../../sdk/client/event-kinds.generated.ts'
import { declaredKinds, digestOf, documentWithEvents, typesPath } from './client-types.ts'
import { copyPath } from './openapi.ts'

test('the types are made from the document and the events as they are now', async () => {
  const kinds = await declaredKinds()
  expect(kinds.length).toBeGreaterThan(10)
  expect([...eventKinds]).toEqual(kinds.map(({ kind }) => kind))
  const document = documentWithEvents(JSON.parse(readFileSync(copyPath, 'utf8')), kinds)
  expect(readFileSync(typesPath, 'utf8')).toContain(`// Made from: ${digestOf(document)}\n`)
})
