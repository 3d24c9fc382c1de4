// What extensions ask for and what was decided about it, over the API.
import { type Route, route } from 'svc-host/sdk'
import { z } from 'zod'
import { createPermissions, type PermissionsOptions } from './permissions.ts'
import { Permissions, PermitRequest } from './schema.ts'

const admin = { tag: 'extensions', lanes: { plugin: false, device: false } } as const
const params = z.object({ id: z.string() })

export function permissionRoutes(options: PermissionsOptions): Route[] {
  const book = createPermissions(options)
  return [
    route({
      ...admin,
      method: 'GET',
      path: '/extensions/{id}/permissions',
      id: 'getExtensionPermissions',
      summary: 'What an extension asks for, and what was decided about it',
      params,
      replies: { 200: Permissions },
      errors: { 404: 'no such extension' },
      handler: ({ params: { id } }) => book.of(id),
    }),
    route({
      ...admin,
      method: 'PUT',
      path: '/extensions/{id}/permissions',
      id: 'setExtensionPermissions',
      summary: 'Grant or refuse permissions of an extension; it starts anew with them',
      params,
      body: PermitRequest,
      invalidBody: 400,
      replies: { 200: Permissions },
      errors: {
        400: 'it does not ask for one of them',
        404: 'no such extension',
        409: 'it is built in, or the host is stopping',
      },
      handler: ({ params: { id }, body }) => book.permit(id, body),
    }),
  ]
}
