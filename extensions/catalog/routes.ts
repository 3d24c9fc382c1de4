// The catalog and its sources over the API.
import { type Route, reply, route } from 'svc-host/sdk'
import { z } from 'zod'
import { CatalogAnswer, SourceInput, SourceRow, sourceName } from './schema.ts'
import type { Sources } from './sources.ts'

const admin = { tag: 'store', lanes: { plugin: false, device: false } } as const
const named = z.object({ name: sourceName })

export interface CatalogRoutes {
  readonly sources: Sources
  answer(): Promise<CatalogAnswer>
  /** All sources were read anew. */
  refreshed(): Promise<void>
}

export const routes = ({ sources, answer, refreshed }: CatalogRoutes): Route[] => [
  route({
    ...admin,
    method: 'GET',
    path: '/store/catalog',
    id: 'getPluginCatalog',
    summary: 'What the sources offer',
    replies: { 200: CatalogAnswer },
    handler: async () => {
      await sources.refresh('stale')
      return answer()
    },
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/store/refresh',
    id: 'refreshPluginCatalog',
    summary: 'Read all sources anew',
    replies: { 200: CatalogAnswer },
    handler: async () => {
      await sources.refresh('all')
      await refreshed()
      return answer()
    },
  }),
  route({
    ...admin,
    method: 'GET',
    path: '/store/sources',
    id: 'listPluginSources',
    summary: 'List the sources, the built-in one first',
    replies: { 200: z.array(SourceRow) },
    handler: () => sources.rows(),
  }),
  route({
    ...admin,
    method: 'PUT',
    path: '/store/sources/{name}',
    id: 'putPluginSource',
    summary: 'Add a source, or change it',
    params: named,
    body: SourceInput,
    invalidBody: 400,
    replies: { 204: null },
    errors: { 400: 'not an address or a key, or the built-in source' },
    handler: async ({ params, body }) => {
      await sources.put(params.name, body)
      return reply(204)
    },
  }),
  route({
    ...admin,
    method: 'DELETE',
    path: '/store/sources/{name}',
    id: 'deletePluginSource',
    summary: 'Remove a source',
    params: named,
    replies: { 204: null },
    errors: { 403: 'the built-in source stays' },
    handler: async ({ params }) => {
      await sources.remove(params.name)
      return reply(204)
    },
  }),
]
