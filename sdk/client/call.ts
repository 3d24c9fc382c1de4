// Typed calls: methods, paths, parameters and answers as the checked-in OpenAPI document has them.
import document from 'svc-host/openapi.json' with { type: 'json' }
import { z } from 'zod'
import type { paths } from './schema.generated.ts'

export type ApiMethod = 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE'

/** Paths that answer a method, relative to `/api/v1`, parameters in braces. */
export type ApiPath<M extends ApiMethod> = {
  [K in keyof paths]: K extends `/api/v1${infer P}`
    ? paths[K] extends Record<Lowercase<M>, { responses: object }>
      ? P
      : never
    : never
}[keyof paths]

type Operation<M extends ApiMethod, P extends string> = `/api/v1${P}` extends keyof paths
  ? Lowercase<M> extends keyof paths[`/api/v1${P}`]
    ? paths[`/api/v1${P}`][Lowercase<M>]
    : never
  : never

type PathOf<O> = O extends { parameters: { path: infer P } }
  ? { readonly path: P }
  : { readonly path?: never }
type QueryOf<O> = O extends { parameters: { query: infer Q } }
  ? { readonly query: Q }
  : O extends { parameters: { query?: infer Q } }
    ? { readonly query?: Q }
    : { readonly query?: never }
type BodyOf<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? { readonly body: B }
  : O extends { requestBody?: infer B }
    ? { readonly body?: NonNullable<B> extends { content: { 'application/json': infer C } } ? C : never }
    : { readonly body?: never }

/** What a call takes: path parameters, query, JSON body, and a signal that gives it up. */
export type CallOptions<M extends ApiMethod, P extends string> = PathOf<Operation<M, P>> &
  QueryOf<Operation<M, P>> &
  BodyOf<Operation<M, P>> & { readonly signal?: AbortSignal }

type Success = 200 | 201 | 202 | 204
type AnswerOf<O> = O extends { responses: infer R }
  ? {
      [S in keyof R & Success]: R[S] extends { content: { 'application/json': infer T } } ? T : undefined
    }[keyof R & Success]
  : never
/** The answer of a call; undefined where it has no body. */
export type CallAnswer<M extends ApiMethod, P extends string> = AnswerOf<Operation<M, P>>

/** `options` may be left out where nothing in it is required. */
export type CallArguments<M extends ApiMethod, P extends string> =
  object extends CallOptions<M, P> ? [options?: CallOptions<M, P>] : [options: CallOptions<M, P>]

/** The path with its parameters and query filled in; throws a TypeError where that would be another path. */
export function fillPath(
  path: string,
  parameters: Readonly<Record<string, unknown>> = {},
  query: Readonly<Record<string, unknown>> = {},
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(parameters[name] ?? '')
    // An address without this segment, or with one of these, is that of another route.
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`"${value}" cannot be the ${name} of ${path}`)
    return encodeURIComponent(value)
  })
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) if (value !== undefined) search.set(key, String(value))
  return search.size > 0 ? `${filled}?${search}` : filled
}

interface Described {
  readonly responses: Readonly<Record<string, { content?: { 'application/json'?: { schema: object } } }>>
}
const relink = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"#/$defs/'))
const definitions = relink(document.components.schemas)
const schemas = new Map<string, z.ZodType | undefined>()

/** The schema of an answer, made once; undefined: it has no JSON. */
function schemaOf(method: ApiMethod, path: string, status: number): z.ZodType | undefined {
  const key = `${method} ${path} ${status}`
  if (!schemas.has(key)) {
    const operations = (document.paths as Record<string, Record<string, Described>>)[`/api/v1${path}`]
    const json = operations?.[method.toLowerCase()]?.responses[status]?.content?.['application/json']?.schema
    schemas.set(key, json && z.fromJSONSchema({ ...relink(json), $defs: definitions } as never))
  }
  return schemas.get(key)
}

/** Release of this library. */
export const release = document.info.version

/** What of a successful answer this library does not know; undefined: nothing. Fields beyond that are welcome. */
export function strangeIn(
  method: ApiMethod,
  path: string,
  status: number,
  value: unknown,
): string | undefined {
  const schema = schemaOf(method, path, status)
  const result = schema?.safeParse(value)
  if (result?.success || (!schema && value === undefined)) return undefined
  const issue = result?.error?.issues[0]
  return issue ? `${issue.path.join('.') || 'the answer'}: ${issue.message}` : `an answer of status ${status}`
}
