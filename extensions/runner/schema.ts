// What the API says of the plugin runner (wire-decisions, "Plugin store").
import { z } from 'zod'

export const UnitRecord = z
  .object({
    id: z.string(),
    kind: z.enum(['script', 'package']),
    state: z.enum(['starting', 'running', 'restarting', 'completed', 'failed', 'stopped', 'refused']),
    why: z.string().optional().describe('as a sentence, for one that is refused, has failed or starts again'),
    restarts: z.int().describe('after failures, since it was found'),
  })
  .meta({ id: 'PluginUnit' })
export type UnitRecord = z.output<typeof UnitRecord>

export const RunnerState = z
  .object({
    installed: z.boolean().describe('there is something to run, or it was switched on'),
    enabled: z.boolean(),
    running: z.boolean(),
    unit: z.string().describe('its name where it is a service of its own'),
    principal: z.string().optional().describe('the account that plugins run as'),
    detail: z.string().optional().describe('why it is not running, as a sentence'),
    units: z
      .array(UnitRecord)
      .describe('scripts and plugins, and how they fare; none while it is not running'),
  })
  .meta({ id: 'PluginRuntime' })
export type RunnerState = z.output<typeof RunnerState>

export const RunnerRequest = z.object({ enabled: z.boolean() }).meta({ id: 'PluginRuntimeRequest' })

/** `<config>/runner.json`; absent: nobody has chosen, and it runs while there is something to run. */
export const RunnerChoice = z.object({ enabled: z.boolean().optional() })
