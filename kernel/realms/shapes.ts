// Shapes of what a stranger says about its registrations; sizes are limited, so that nothing of it can grow for ever.
import { z } from 'zod'

/** A number that the other side has given to something. */
export const id = z.int().min(0)
export const text = z.string().max(4096)
export const name = z.string().max(128)
/** JSON of any shape; whoever takes it has a schema for it. */
export const json = z.unknown().optional()

/** A service's methods: JSON Schemas, and the number under which each is called. */
export const Described = z.record(name, z.object({ args: z.array(json).max(16), returns: json, call: id }))
export type Described = z.output<typeof Described>

export const Point = z.object({
  id: name,
  kind: z.enum(['series', 'waterfall', 'bail']),
  onFailure: z.enum(['skip', 'refuse']),
  limitMs: z.number(),
})

export const methods = ['GET', 'PUT', 'POST', 'PATCH', 'DELETE'] as const
const lane = <const T extends string>(...words: T[]) => z.union([z.literal(false), z.enum(words)])
const lanesHelp =
  "'open', 'loopback' or { plugin: 'runner', 'own', 'all' or false, device: 'any', 'grant' or false }"
export const RouteShape = z.object({
  method: z.enum(methods),
  path: name,
  id: name.optional(),
  tag: name.optional(),
  summary: text,
  description: text.optional(),
  hidden: z.boolean().optional(),
  lanes: z.union(
    [
      z.enum(['open', 'loopback']),
      z.strictObject({ plugin: lane('runner', 'own', 'all'), device: lane('any', 'grant') }),
    ],
    { error: ({ input }) => `is ${input === undefined ? 'missing' : 'wrong'}; write ${lanesHelp}` },
  ),
  emptyBody: z.boolean().optional(),
  invalidBody: z.union([z.literal(400), z.literal(422)]).optional(),
  bodyLimit: z
    .int()
    .min(1)
    .max(2 ** 20)
    .optional(),
  errors: z.record(z.string().regex(/^[45]\d\d$/), text).optional(),
  params: json,
  query: json,
  body: json,
  replies: z.record(z.string().regex(/^2\d\d$/), json),
})
export type RouteShape = z.output<typeof RouteShape>

export const Answer = z.object({ status: z.int(), value: json, headers: z.record(name, text).optional() })
