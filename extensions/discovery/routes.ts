// The routes of discovery, open to everyone.
import { route } from 'svc-host/sdk'
import { abiVersion, Health } from './api.ts'
import type { ReferenceFile } from './reference.ts'

export const routes = (version: string, document: () => string, reference: readonly ReferenceFile[]) => [
  route({
    method: 'GET',
    path: '/health',
    id: 'getHealth',
    tag: 'host',
    summary: 'Tell that the host is alive, and its version',
    lanes: 'open',
    replies: { 200: Health },
    handler: () => ({ status: 'ok' as const, version, abi_version: abiVersion }),
  }),
  route({
    method: 'GET',
    path: '/openapi.json',
    summary: 'The OpenAPI 3.1 document of the live routes',
    hidden: true,
    lanes: 'open',
    stream: 'application/json; charset=utf-8',
    handler: document,
  }),
  ...reference.map(({ path, type, open }) =>
    route({
      method: 'GET',
      path,
      absolute: true,
      summary: 'The interactive reference of the API',
      hidden: true,
      lanes: 'open',
      stream: type,
      handler: open,
    }),
  ),
]
