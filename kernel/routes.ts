// The kernel's own routes: the list of extensions, and switching one on or off.
import { type Extensions, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'

const ExtensionRow = z
  .object({
    id: z.string(),
    title: z.string(),
    version: z.string(),
    realm: z.enum(['kernel', 'isolate', 'process']),
    builtin: z.boolean(),
    enabled: z.boolean(),
    state: z.enum(['off', 'waiting', 'starting', 'on', 'stopping', 'failed', 'quarantined']),
    why: z.string().nullable().describe('a sentence for every state that is not on'),
    provides: z.array(z.string()).describe('services, as name@version'),
    requires: z.array(z.string()).describe('services, as name@range'),
    effects: z.array(z.string()).describe('labels of what it has registered'),
    errors: z.number().int().describe('since the start of the host'),
  })
  .meta({ id: 'Extension' })

export const extensionRoutes = (extensions: Extensions): Route[] => [
  route({
    method: 'GET',
    path: '/extensions',
    id: 'listExtensions',
    tag: 'extensions',
    summary: 'List the extensions with their states',
    lanes: { plugin: false, device: false },
    replies: { 200: z.object({ extensions: z.array(ExtensionRow) }) },
    handler: () => ({ extensions: extensions.list().map(record => ({ ...record }) as never) }),
  }),
  route({
    method: 'PUT',
    path: '/extensions/{id}',
    id: 'setExtension',
    tag: 'extensions',
    summary: 'Switch an extension on or off',
    lanes: { plugin: false, device: false },
    params: z.object({ id: z.string() }),
    body: z.object({ enabled: z.boolean() }),
    invalidBody: 400,
    replies: { 200: ExtensionRow },
    errors: {
      400: 'the body is not {enabled}',
      404: 'no such extension',
      409: 'nothing can be switched now',
    },
    handler: async ({ params, body }) => (await extensions.enable(params.id, body.enabled)) as never,
  }),
]
