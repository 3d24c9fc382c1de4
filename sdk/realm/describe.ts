// Schemas as they cross a bridge: JSON Schema, made inside, where the author's zod schema stays to do the fine work.
import { z } from 'zod'

/** A schema as JSON Schema; the sentence says which one cannot be described. */
export function describeSchema(schema: z.ZodType, io: 'input' | 'output', what: string): object {
  try {
    return z.toJSONSchema(schema, { io, target: 'draft-2020-12' })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`${what} cannot be described as JSON Schema (${why}); use schemas of plain data there`)
  }
}
