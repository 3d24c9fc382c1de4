// The routes of the display settings: what is stored, what is in force, and storing another policy.
import { type DocumentFile, type Log, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'
import {
  DisplayAxes,
  DisplaySettings,
  DisplaySettingsInput,
  effectiveAxes,
  presetIds,
  presets,
  tidyPositions,
} from './settings.ts'

const lanes = { plugin: 'all', device: false } as const

const Answer = z
  .object({
    settings: DisplaySettings,
    configured: z.boolean().describe('True once the settings have been stored'),
    effective: DisplayAxes.describe('The axes in force'),
    presets: z.array(z.object({ id: z.enum(presetIds), summary: z.string(), fields: DisplayAxes })),
    custom_presets: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        fields: DisplayAxes,
        game_session: z.enum(['auto', 'dedicated']),
      }),
    ),
    enforced: z.array(z.string()).describe('Axes that this host acts by'),
  })
  .meta({ id: 'DisplaySettingsAnswer' })

/** Axes that act here. */
const enforced = ['keep_alive', 'topology', 'mode_conflict', 'identity', 'layout']

export function settingsRoutes(file: DocumentFile<DisplaySettings>, log: Log): Route[] {
  const answer = (): z.input<typeof Answer> => ({
    settings: file.value,
    configured: file.exists,
    effective: effectiveAxes(file.value),
    presets: [...presets],
    custom_presets: [],
    enforced,
  })
  return [
    route({
      method: 'GET',
      path: '/display/settings',
      id: 'getDisplaySettings',
      tag: 'display',
      summary: 'The display policy: as stored, as in force, and the presets',
      lanes,
      replies: { 200: Answer },
      handler: answer,
    }),
    route({
      method: 'PUT',
      path: '/display/settings',
      id: 'setDisplaySettings',
      tag: 'display',
      summary: 'Store a display policy; it acts from the next connect on',
      description: 'The whole object: a key that is missing goes back to its default. Numbers are clamped.',
      lanes,
      body: DisplaySettingsInput,
      invalidBody: 400,
      replies: { 200: Answer },
      errors: { 500: 'the settings could not be stored' },
      handler: async ({ body }) => {
        const { positions, dropped } = tidyPositions(body.layout.positions)
        if (dropped.length)
          log.warn(`places of no identity slot (1..15) were left out: ${dropped.join(', ')}`)
        await file.write({ ...body, layout: { ...body.layout, positions } })
        return answer()
      },
    }),
  ]
}
