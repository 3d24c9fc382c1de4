// Plugin records over the API.
import { HttpError, type Log, type Route, reply, route } from 'svc-host/sdk'
import { z } from 'zod'
import type { Registry } from './registry.ts'
import { LogBatch, PluginId, PluginSummary, Registration, UiCredential } from './schema.ts'

const params = z.object({ id: PluginId })
const own = { plugin: 'own', device: false } as const
const every = { plugin: 'all', device: false } as const
const levels = { ERROR: 'error', WARN: 'warn', INFO: 'info', DEBUG: 'debug', TRACE: 'debug' } as const

/** Runner lines become lines of the host's log, under the name and the time that they came with. */
function ingest({ entries }: LogBatch, log: Log): void {
  for (const { ts_ms, level, source, msg } of entries) {
    const say = levels[level.toUpperCase() as keyof typeof levels] ?? 'info'
    log[say](msg, { target: `plugin:${source.trim().slice(0, 64) || 'runner'}`, ts_ms })
  }
}

export const routes = (registry: Registry, log: Log): Route[] => [
  route({
    method: 'GET',
    path: '/plugins',
    id: 'listPlugins',
    tag: 'plugins',
    summary: 'List the plugins that are registered now',
    lanes: every,
    replies: { 200: z.array(PluginSummary) },
    handler: () => registry.list(),
  }),
  route({
    method: 'PUT',
    path: '/plugins/{id}',
    id: 'registerPlugin',
    tag: 'plugins',
    summary: 'Register a plugin for 90 s, or renew its registration',
    lanes: own,
    params,
    body: Registration,
    invalidBody: 400,
    replies: { 204: null },
    errors: { 400: 'the registration does not fit' },
    handler: ({ params: { id }, body }) => {
      registry.put(id, body)
      return reply(204)
    },
  }),
  route({
    method: 'DELETE',
    path: '/plugins/{id}',
    id: 'deregisterPlugin',
    tag: 'plugins',
    summary: 'End a registration',
    lanes: own,
    params,
    replies: { 204: null },
    handler: ({ params: { id } }) => {
      registry.remove(id)
      return reply(204)
    },
  }),
  route({
    method: 'GET',
    path: '/plugins/{id}/ui-credential',
    id: 'getPluginUiCredential',
    tag: 'plugins',
    summary: 'How the console reaches the page of a plugin; never for a browser',
    lanes: { plugin: false, device: false },
    params,
    replies: { 200: UiCredential },
    errors: { 404: 'it is not registered, or has no page' },
    handler: ({ params: { id } }) => {
      const credential = registry.credential(id)
      if (!credential) throw new HttpError(404, 'plugin page not found')
      return credential
    },
  }),
  route({
    method: 'POST',
    path: '/plugins/logs',
    id: 'ingestPluginLogs',
    tag: 'plugins',
    summary: 'Add lines of the plugin runner to the log of the host',
    lanes: every,
    body: LogBatch,
    invalidBody: 400,
    replies: { 204: null },
    errors: { 400: 'the batch does not fit, or has over 256 lines' },
    handler: ({ body }) => {
      ingest(body, log)
      return reply(204)
    },
  }),
]
