// What the API says and takes of the config of an extension.
import { z } from 'zod'

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const Values = z.record(z.string(), z.unknown())
const KeyPath = z.array(z.string())
export const ConfigRecord = z
  .object({
    id: z.string(),
    values: Values.describe('what is stored; a secret as a mark that stands for it'),
    defaults: Values.describe('what holds where nothing is stored'),
    overrides: z
      .array(z.object({ path: KeyPath, value: z.unknown(), source: z.string() }))
      .describe('set by flag, environment or host.env, which go first'),
    unknown: z.array(KeyPath).describe('stored keys that nobody reads'),
    schema: Values.nullable().describe('JSON Schema of what it takes; null: not known'),
    problem: z
      .string()
      .nullable()
      .describe('why the file cannot be read or the schema is not known, as a sentence'),
    revision: z.string().describe('changes with what is stored'),
  })
  .meta({ id: 'ExtensionConfig' })
export type ConfigRecord = z.output<typeof ConfigRecord>
export const ConfigRequest = z
  .object({
    // Not a record, whose parser would drop a key named __proto__ without a word.
    values: z
      .unknown()
      .refine(isObject, 'expected an object')
      .transform(values => values as Readonly<Record<string, unknown>>)
      .meta({ type: 'object', additionalProperties: true }),
    revision: z.string().optional().describe('what the values were made from; refused where that is no more'),
  })
  .meta({ id: 'SetExtensionConfig' })
