// The kernel's own routes: the list of extensions, and switching one on or off.
import { ExtensionRecord, type Extensions, HttpError, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'

export const extensionRoutes = (extensions: Extensions): Route[] => [
  route({
    method: 'GET',
    path: '/extensions',
    id: 'listExtensions',
    tag: 'extensions',
    summary: 'List the extensions with their states',
    lanes: { plugin: false, device: false },
    replies: { 200: z.object({ extensions: z.array(ExtensionRecord) }) },
    handler: () => ({ extensions: [...extensions.list()] }),
  }),
  route({
    method: 'PUT',
    path: '/extensions/{id}',
    id: 'setExtension',
    tag: 'extensions',
    summary: 'Switch an extension on or off',
    description:
      'Switching on one that is on takes in its config file, where that has changed since it started.',
    lanes: { plugin: false, device: false },
    params: z.object({ id: z.string() }),
    body: z.object({ enabled: z.boolean() }),
    invalidBody: 400,
    replies: { 200: ExtensionRecord },
    errors: {
      400: 'the body is not {enabled}',
      404: 'no such extension',
      409: 'nothing can be switched now, or the config file that has changed is wrong',
      500: 'extensions.json cannot be written; nothing has changed',
    },
    handler: ({ params, body }) =>
      extensions.enable(params.id, body.enabled).catch(cause => {
        if (!cause.syscall) throw cause
        throw new HttpError(500, `the choice cannot be stored, so nothing has changed: ${cause.message}`)
      }),
  }),
]
