// Plugin records on the wire (wire-decisions, "Plugin records").
import { z } from 'zod'

export const PluginId = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9-]*$/, 'must be lower-case letters, digits and hyphens')

/** Without what a page or a terminal would take for more than text. */
const plainText = (given: string): string => given.replace(/[\p{Cc}\p{Cf}]/gu, '').trim()

const icon = z.string().regex(/^[a-z0-9-]{1,48}$/)
const port = z.int().min(1024).max(65535).describe('on 127.0.0.1')

export const Registration = z
  .object({
    title: z.string().transform(plainText).pipe(z.string().min(1).max(64)),
    version: z.string().max(32).optional(),
    category: z
      .string()
      .regex(/^[a-z][a-z0-9-]{0,31}$/)
      .optional(),
    ui: z
      .object({ port, secret: z.string().regex(/^[A-Za-z0-9_-]{16,128}$/), icon: icon.optional() })
      .optional()
      .describe('its page, which only the console reaches'),
  })
  .meta({ id: 'PluginRegistration' })
export type Registration = z.output<typeof Registration>

export const PluginSummary = z
  .object({
    id: z.string(),
    title: z.string(),
    version: z.string().optional(),
    category: z.string().optional(),
    ui: z.object({ port: z.int(), icon: z.string().optional() }).optional(),
  })
  .meta({ id: 'PluginSummary' })
export type PluginSummary = z.output<typeof PluginSummary>

export const UiCredential = z.object({ port: z.int(), secret: z.string() }).meta({ id: 'PluginUiCredential' })
export type UiCredential = z.output<typeof UiCredential>

export const LogBatch = z
  .object({
    entries: z
      .array(
        z.object({ ts_ms: z.int().nonnegative(), level: z.string(), source: z.string(), msg: z.string() }),
      )
      .max(256),
  })
  .meta({ id: 'PluginLogBatch' })
export type LogBatch = z.output<typeof LogBatch>
