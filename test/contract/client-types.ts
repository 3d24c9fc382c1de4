// What the client library's types are generated from: the checked-in document, and the events of all built-ins.
import { createHash } from 'node:crypto'
import { globSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { EventKind } from 'svc-host/sdk'
import { z } from 'zod'
import { type Document, normalised } from './openapi.ts'

export const typesPath = 'sdk/client/schema.generated.ts'
export const kindsPath = 'sdk/client/event-kinds.generated.ts'

const isKind = (value: unknown): value is EventKind =>
  typeof value === 'object' &&
  value !== null &&
  'payload' in value &&
  typeof (value as EventKind).kind === 'string'

/** Every event kind that the kernel or a built-in declares, by name. */
export async function declaredKinds(): Promise<EventKind[]> {
  const files = ['sdk/host.ts', ...globSync('extensions/*/api.ts')]
  const modules = await Promise.all(files.map(file => import(pathToFileURL(file).href)))
  const all = modules.flatMap(module => Object.values(module as object).filter(isKind))
  return all.sort((a, b) => (a.kind < b.kind ? -1 : 1))
}

/** The document with the payload of each event as a schema `Event.<kind>` of its own. */
export function documentWithEvents(document: Document, kinds: readonly EventKind[]): Document {
  const { schemas, ...rest } = document['components'] as { schemas: Record<string, object> }
  const added: Record<string, object> = {}
  for (const { kind, payload } of kinds) {
    const { $schema: _, $defs = {}, ...json } = z.toJSONSchema(payload, { io: 'output' })
    Object.assign(added, { [`Event.${kind}`]: json })
    for (const [id, definition] of Object.entries($defs)) added[id] ??= definition
  }
  const linked = JSON.parse(JSON.stringify(added).replaceAll('"#/$defs/', '"#/components/schemas/'))
  return { ...document, components: { ...rest, schemas: { ...linked, ...schemas } } }
}

/** Changes when the types would. */
export const digestOf = (document: Document): string =>
  createHash('sha256')
    .update(JSON.stringify(normalised(document)))
    .digest('hex')
