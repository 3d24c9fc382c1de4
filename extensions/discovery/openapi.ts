// The OpenAPI 3.1 document as a pure function of the live routes.
import type { ApiRoutes, Lanes, Route } from 'svc-host/sdk'
import { z } from 'zod'

type Json = Record<string, unknown>

/** JSON Schema of one schema; answers may grow, so that they are never closed to further keys. */
function describe(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    override: ({ jsonSchema }) => {
      if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
    },
  }) as Json
  return json
}

type Described = ReturnType<typeof describeAll>
const described = new WeakMap<Route, Described>()

/** Every schema of a route as JSON Schema, worked out once for each route. */
function schemasOf(route: Route): Described {
  const known = described.get(route) ?? describeAll(route)
  described.set(route, known)
  return known
}

function describeAll(route: Route): {
  params?: Json
  query?: Json
  body?: Json
  replies: [string, Json | null][]
} {
  const input = (schema?: z.ZodType): Json | undefined => schema && describe(schema, 'input')
  return {
    params: input(route.params),
    query: input(route.query),
    body: input(route.body),
    replies: Object.entries(route.replies ?? {}).map(([status, s]) => [status, s && describe(s, 'output')]),
  }
}

/** Moves shared schemas (`.meta({ id })`) to the components; one that reads otherwise than it is written gets two. */
function hoist(json: Json, components: Json, suffix: string): Json {
  const { $defs = {}, ...rest } = json
  const names = new Map<string, string>()
  for (const [id, definition] of Object.entries($defs as Json)) {
    const taken =
      components[id] && JSON.stringify(components[id]) !== JSON.stringify(relink(definition, names))
    names.set(id, taken ? id + suffix : id)
  }
  for (const [id, definition] of Object.entries($defs as Json))
    components[names.get(id)!] = relink(definition, names)
  return relink(rest, names) as Json
}

const relink = (value: unknown, names: Map<string, string>): unknown =>
  JSON.parse(JSON.stringify(value), (key, inner) => {
    const id = key === '$ref' && typeof inner === 'string' && /^#\/\$defs\/(.+)$/.exec(inner)?.[1]
    return id ? `#/components/schemas/${names.get(id) ?? id}` : inner
  })

const properties = (json: Json | undefined): Record<string, Json> =>
  (json?.['properties'] ?? {}) as Record<string, Json>

const parametersOf = (path: string, params: Json | undefined, query: Json | undefined): Json[] => [
  ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    const schema = properties(params)[name!] ?? { type: 'string' }
    return { name, in: 'path', required: true, schema }
  }),
  ...Object.entries(properties(query)).map(([name, schema]) => {
    const required = ((query!['required'] as string[]) ?? []).includes(name)
    return { name, in: 'query', required, schema }
  }),
]

/** The refusals that the lanes themselves give. */
const laneErrors = (lanes: Lanes): Record<number, string> => {
  if (lanes === 'open') return {}
  if (lanes === 'loopback') return { 401: 'not this machine' }
  return { 401: 'missing or wrong credential', 403: 'the credential is not for this route' }
}

/** Describes these routes; owners are named in `x-extension`, lanes in `x-lanes`. */
export function openApiDocument(
  routes: ReturnType<ApiRoutes['list']>,
  info: { readonly title: string; readonly version: string },
): object {
  const components: Json = {
    Error: { type: 'object', properties: { error: { type: 'string' } }, required: ['error'] },
  }
  const paths: Record<string, Json> = {}
  const content = (schema: Json): Json => ({ 'application/json': { schema } })
  const failure = (description: string): Json => ({
    description,
    content: content({ $ref: '#/components/schemas/Error' }),
  })
  const shown = routes.filter(({ route }) => !route.hidden)
  for (const { owner, url, route } of shown.toSorted((a, b) => (a.url < b.url ? -1 : 1))) {
    const { params, query, body, replies } = schemasOf(route)
    const local = (json: Json | undefined, suffix: string) => json && hoist(json, components, suffix)
    const responses: Json = {}
    for (const [status, json] of replies)
      responses[status] = { description: 'done', ...(json && { content: content(local(json, 'Output')!) }) }
    if (route.stream) responses['200'] = { description: 'streamed', content: { [route.stream]: {} } }
    if (route.upgrade) responses['101'] = { description: 'the connection is taken over' }
    const inputs: Record<string, string | undefined> = {
      ...((params || query || body) && { 400: 'the request is not well formed' }),
      ...(body && { 413: 'the body is too large', 415: 'the body is not JSON' }),
      ...(body && { [route.invalidBody ?? 422]: 'the body does not fit its schema' }),
    }
    const errors: Record<string, string | undefined> = {
      ...laneErrors(route.lanes),
      ...inputs,
      ...route.errors,
    }
    for (const [status, text] of Object.entries(errors)) responses[status] = failure(text!)
    const operation: Json = {
      operationId: route.id,
      ...(route.tag && { tags: [route.tag] }),
      summary: route.summary,
      description: route.description,
      parameters: parametersOf(route.path, local(params, 'Input'), local(query, 'Input')),
      ...(body && { requestBody: { required: !route.emptyBody, content: content(local(body, 'Input')!) } }),
      responses,
      security: typeof route.lanes === 'string' ? [{}] : [{ bearerAuth: [] }],
      'x-lanes': route.lanes,
      'x-extension': owner,
    }
    paths[url] = { ...paths[url], [route.method.toLowerCase()]: operation }
  }
  return JSON.parse(
    JSON.stringify({
      openapi: '3.1.0',
      info,
      paths,
      components: {
        schemas: Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1))),
        securitySchemes: { bearerAuth: { type: 'http', scheme: 'bearer' } },
      },
      security: [{ bearerAuth: [] }],
    }),
  )
}
