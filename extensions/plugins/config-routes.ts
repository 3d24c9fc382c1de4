// Configs over the API: read with their schemas, and stored as a whole once they have been checked.
import { ExtensionRecord, type Extensions, HttpError, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'
import { createConfigViews } from './config.ts'
import { ConfigRecord, ConfigRequest } from './config-record.ts'

const admin = { tag: 'extensions', lanes: { plugin: false, device: false } } as const
const params = z.object({ id: z.string() })

export function configRoutes(extensions: Pick<Extensions, 'config' | 'configure'>): Route[] {
  const views = createConfigViews()
  const show = async (id: string): Promise<ConfigRecord> => views.show(id, await extensions.config(id))
  return [
    route({
      ...admin,
      params,
      method: 'GET',
      path: '/extensions/{id}/config',
      id: 'getExtensionConfig',
      summary: 'The config of an extension: what is stored, what goes over it, defaults and schema',
      description:
        'A secret, `writeOnly` in the schema, is shown as a mark that stands for it when it is sent back.',
      replies: { 200: ConfigRecord },
      errors: { 404: 'no such extension' },
      handler: ({ params }) => show(params.id),
    }),
    route({
      ...admin,
      params,
      method: 'PUT',
      path: '/extensions/{id}/config',
      id: 'setExtensionConfig',
      summary: 'Store a whole config and restart the extension with it',
      description:
        'It is checked first: what does not fit is refused with its path, and then nothing has changed. The answer says ' +
        'how the extension fares with it. Keys that nobody reads are kept.',
      body: ConfigRequest,
      replies: { 200: z.object({ config: ConfigRecord, extension: ExtensionRecord }) },
      errors: {
        404: 'no such extension',
        409: 'a value is set by flag or environment, or what it takes cannot be told now',
        412: 'it has changed since the revision that was given',
        422: 'a value does not fit; the message names its path',
        500: 'it cannot be written; nothing has changed',
      },
      async handler({ params: { id }, body: { values, revision } }) {
        const edit: Parameters<Extensions['configure']>[1] = now => views.take(now, values, revision)
        const extension = await extensions.configure(id, edit).catch(cause => {
          if (!cause.syscall) throw cause
          throw new HttpError(500, `it cannot be stored, so nothing has changed: ${cause.message}`)
        })
        return { config: await show(id), extension }
      },
    }),
  ]
}
