// The two routes of discovery, open to everyone.
import { route } from 'svc-host/sdk'
import { abiVersion, Health } from './api.ts'

export const routes = (version: string, document: () => string) => [
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
]
