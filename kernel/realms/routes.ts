// Routes across a bridge: the host looks at the request and at the answer, whatever the other side makes of them.
import { HttpError, PermissionError, type Route, reply, type Scope } from 'svc-host/sdk'
import type { Rights } from '../permissions.ts'
import type { Cell } from './cell.ts'
import { revive, reviveText } from './schemas.ts'
import { Answer, type RouteShape } from './shapes.ts'

/** Of a request's head, what is of use and no secret; of an answer's, what cannot change how others are answered. */
const headersIn =
  /^(accept(-language)?|content-type|user-agent|if-none-match|if-modified-since|x-[a-z0-9-]+)$/
const headersOut =
  /^(etag|last-modified|location|retry-after|content-disposition|content-language|link|x-svc-[a-z-]+)$/

const isSafe = ([header, value]: [string, string]): boolean =>
  headersOut.test(header.toLowerCase()) && /^[\t\x20-\x7e]*$/.test(value)

/** Registers a route whose handler is a call over the bridge; `newKey` names its abort signal there. */
export function addRoute(
  cell: Cell,
  scope: Scope,
  { prefix, rights }: { prefix: string; rights: Rights },
  shape: RouteShape,
  target: number,
  newKey: () => string,
): void {
  rights.check('routes')
  const { path } = shape
  const isBelow = path === prefix || path.startsWith(`${prefix}/`)
  if (!isBelow || !/^(\/(?!\.\.?(\/|$))([\w.~-]+|\{\w+\}))+$/.test(path))
    throw new PermissionError('routes', `route ${path}: an extension serves under ${prefix} only`)
  const { params, query, body, replies, errors = {}, ...plain } = shape
  const hasInput = params !== undefined || query !== undefined || body !== undefined
  const described: Route = {
    ...(plain as Omit<Route, 'replies'>),
    params: params === undefined ? undefined : reviveText(params),
    query: query === undefined ? undefined : reviveText(query),
    body: body === undefined ? undefined : revive(body),
    replies: Object.fromEntries(
      Object.entries(replies).map(([status, s]) => [status, s === null ? null : revive(s)]),
    ),
    // Its own schemas may refuse what these here let through.
    errors: {
      ...(hasInput && { 400: 'the request is not well formed' }),
      ...(body !== undefined && { [shape.invalidBody ?? 422]: 'the body does not fit its schema' }),
      ...errors,
    } as Record<number, string>,
    handler: async request => {
      if (!rights.has('routes')) throw new HttpError(403, `routes under ${prefix} are no longer granted`)
      const key = newKey()
      const gone = (): void => cell.tell('abort', [key])
      request.signal.addEventListener('abort', gone, { once: true })
      try {
        const headers = Object.fromEntries(Object.entries(request.headers).filter(([h]) => headersIn.test(h)))
        const { params, query, body, caller } = request
        const answer = Answer.parse(await cell.call(target, [key, { params, query, body, headers, caller }]))
        const kept = Object.entries(answer.headers ?? {}).filter(isSafe)
        return reply(answer.status, answer.value, Object.fromEntries(kept))
      } finally {
        request.signal.removeEventListener('abort', gone)
      }
    },
  }
  scope.route(described)
}
