// What the store says over the API: packages, jobs and requests (wire-decisions, "Plugin store").
import { z } from 'zod'

export const Tier = z
  .enum(['verified', 'external', 'unverified', 'cli'])
  .describe('verified: from the built-in source; external: from another; cli: from the command line')
export type Tier = z.output<typeof Tier>

export const InstalledRow = z
  .object({
    pkg: z.string(),
    tier: Tier,
    running: z.boolean(),
    version: z.string().optional(),
    source: z.string().optional(),
    entry_id: z.string().optional(),
    plugin_id: z.string().optional(),
    title: z.string().optional(),
    installed_at: z.int().optional().describe('Unix seconds'),
    update_available: z.string().optional().describe('a version that a source offers'),
    blocked: z.string().optional().describe('why a source blocks this version'),
    integrity: z.string().optional().describe('sha512 of the package as it came'),
    previous_version: z.string().optional().describe('what a rollback goes back to'),
    pinned: z.boolean().optional(),
    unit: z.literal(true).optional().describe('no extension: the plugin runner runs it'),
  })
  .meta({ id: 'InstalledPlugin' })
export type InstalledRow = z.output<typeof InstalledRow>

export const JobKind = z.enum(['install', 'uninstall', 'update', 'rollback'])
export const JobState = z.enum(['running', 'done', 'failed'])
export const Job = z
  .object({
    id: z.string(),
    kind: JobKind,
    target: z.string(),
    state: JobState,
    phase: z.enum(['waiting', 'fetching', 'checking', 'installing', 'starting', 'removing', 'done']),
    log: z.array(z.string()),
    started_at: z.int().describe('Unix seconds'),
    finished_at: z.int().optional(),
    error: z.string().optional(),
    error_code: z
      .enum(['permissions'])
      .optional()
      .describe('permissions: the version asks for more than was decided; nothing was changed'),
    asks: z.array(z.string()).optional().describe('with error_code permissions: what is new'),
  })
  .meta({ id: 'PluginJob' })
export type Job = z.output<typeof Job>

export const JobReference = z.object({ job: z.string() }).meta({ id: 'PluginJobReference' })

const Grant = z
  .union([z.literal('all'), z.array(z.string().max(512)).max(256)])
  .optional()
  .describe('permissions that are granted with it; all: what it asks for and nobody has decided on')

export const InstallRequest = z
  .object({
    source: z.string().optional(),
    id: z.string().optional(),
    spec: z
      .string()
      .max(4096)
      .optional()
      .describe('name[@version] in a registry, or file:/path of a package or folder'),
    accept_unverified: z.literal(true).optional(),
    via: z.literal('cli').optional(),
    trust: z.boolean().default(false).describe('it may run in the process of the host'),
    grant: Grant,
    registries: z
      .record(z.string(), z.url({ protocol: /^https?$/ }))
      .default({})
      .describe('by scope, such as @acme'),
  })
  .refine(({ source, id, spec }) => (spec === undefined) !== (source === undefined || id === undefined), {
    message: 'give either source and id, or spec',
  })
  .refine(({ spec, accept_unverified }) => spec === undefined || accept_unverified === true, {
    message: 'a spec is not from a catalog: accept_unverified must be true',
  })
  .meta({ id: 'InstallPlugin' })
export type InstallRequest = z.output<typeof InstallRequest>

export const UninstallRequest = z
  .object({ pkg: z.string(), keep_data: z.boolean().default(false) })
  .meta({ id: 'UninstallPlugin' })
export const UpdateRequest = z
  .object({ pkg: z.string(), version: z.string().optional().describe('default the newest'), grant: Grant })
  .meta({ id: 'UpdatePlugin' })
export const RollbackRequest = z.object({ pkg: z.string(), grant: Grant }).meta({ id: 'RollbackPlugin' })
export const PinRequest = z.object({ pkg: z.string(), pinned: z.boolean() }).meta({ id: 'PinPlugin' })

export const PermissionRow = z.object({
  permission: z.string(),
  state: z.enum(['granted', 'refused', 'asked']).describe('asked: nobody has decided, and it waits'),
  meaning: z.string().describe('what it allows, as an operator reads it'),
})
export const Permissions = z
  .object({ id: z.string(), permissions: z.array(PermissionRow) })
  .meta({ id: 'PluginPermissions' })
export type Permissions = z.output<typeof Permissions>

const texts = z.array(z.string().max(512)).max(256)
export const PermitRequest = z
  .object({ granted: z.union([z.literal('all'), texts]).optional(), refused: texts.optional() })
  .describe('what is named neither here nor there stays as it was decided; all: what nobody has decided on')
  .meta({ id: 'PermitPlugin' })
export type PermitRequest = z.output<typeof PermitRequest>
