// What the API says of the plugin runner (wire-decisions, "Plugin store").
import { z } from 'zod'

export const RunnerState = z
  .object({
    installed: z.boolean().describe('there is something to run, or it was switched on'),
    enabled: z.boolean(),
    running: z.boolean(),
    unit: z.string().describe('its name where it is a service of its own'),
    principal: z.string().optional().describe('the account that plugins run as'),
    detail: z.string().optional().describe('why it is not running, as a sentence'),
  })
  .meta({ id: 'PluginRuntime' })
export type RunnerState = z.output<typeof RunnerState>

export const RunnerRequest = z.object({ enabled: z.boolean() }).meta({ id: 'PluginRuntimeRequest' })

/** `<config>/runner.json`; absent: nobody has chosen, and it runs while there is something to run. */
export const RunnerChoice = z.object({ enabled: z.boolean().optional() })
