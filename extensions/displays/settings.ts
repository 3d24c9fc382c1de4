// The display settings as they are stored and sent, and the policy that follows (wire-decisions, "Display policy").
import { z } from 'zod'
import { type DisplayPolicy, defaultPolicy, type LayoutPolicy, type Position } from './policy.ts'

export const presetIds = ['default', 'gaming-rig', 'shared-desktop', 'hotdesk', 'workstation'] as const
export type PresetId = (typeof presetIds)[number]

const KeepAlive = z.discriminatedUnion('mode', [
  z.object({ mode: z.literal('off') }),
  z.object({ mode: z.literal('duration'), seconds: z.int().describe('0..86400') }),
  z.object({ mode: z.literal('forever') }),
])
const Topology = z.enum(['auto', 'extend', 'primary', 'exclusive'])
const ModeConflict = z
  .enum(['separate', 'steal', 'join', 'reject'])
  .describe('What a session means for those that are live')
const Identity = z.enum(['shared', 'per-client', 'per-client-mode'])
const LayoutMode = z.enum(['auto-row', 'manual'])
const Positions = z
  .record(z.string(), z.object({ x: z.int(), y: z.int() }))
  .describe('By identity slot, 1..15')

/** The six axes as they are sent. */
export const DisplayAxes = z
  .object({
    keep_alive: KeepAlive,
    topology: Topology,
    mode_conflict: ModeConflict,
    identity: Identity,
    layout: z.object({ mode: LayoutMode, positions: Positions }),
    max_displays: z.int().describe('1..16'),
  })
  .meta({ id: 'DisplayAxes' })
export type DisplayAxes = z.output<typeof DisplayAxes>

const PresetName = z.enum(['custom', ...presetIds])
const GameSession = z.enum(['auto', 'dedicated'])

/** The settings as they are stored and shown: every key is there. */
export const DisplaySettings = DisplayAxes.extend({
  version: z.int(),
  preset: PresetName.describe('Under one other than custom the axes stored here do not act'),
  game_session: GameSession,
  ddc_power_off: z.boolean(),
  pnp_disable_monitors: z.boolean(),
}).meta({ id: 'DisplaySettings' })
export type DisplaySettings = z.output<typeof DisplaySettings>

const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value))
const tidyKeepAlive = (given: z.output<typeof KeepAlive> | 'off' | 'forever'): DisplayAxes['keep_alive'] => {
  if (typeof given === 'string') return { mode: given }
  return given.mode === 'duration' ? { ...given, seconds: clamp(given.seconds, 0, 86_400) } : given
}

/** The whole body of a request, and the file: what is missing takes its default, numbers are clamped. */
export const DisplaySettingsInput = z.object({
  version: z
    .any()
    .default(1)
    .transform(() => 1),
  preset: PresetName.default('custom'),
  keep_alive: z
    .union([z.enum(['off', 'forever']), KeepAlive])
    .default({ mode: 'duration', seconds: 10 })
    .transform(tidyKeepAlive),
  topology: Topology.default(defaultPolicy.topology),
  mode_conflict: ModeConflict.default(defaultPolicy.modeConflict),
  identity: Identity.default(defaultPolicy.identity),
  layout: z
    .object({ mode: LayoutMode.default('auto-row'), positions: Positions.default({}) })
    .default({ mode: 'auto-row', positions: {} }),
  max_displays: z
    .int()
    .default(defaultPolicy.maxDisplays)
    .transform(count => clamp(count, 1, 16)),
  game_session: GameSession.default('auto'),
  ddc_power_off: z.boolean().default(false),
  pnp_disable_monitors: z.boolean().default(false),
})

/** Positions by their plain keys, `1` to `15`; where both spellings are there the plain one wins. */
export function tidyPositions(given: Readonly<Record<string, Position>>): {
  positions: Record<string, Position>
  dropped: string[]
} {
  const positions: Record<string, Position> = {}
  const dropped: string[] = []
  for (const [key, place] of Object.entries(given)) {
    const slot = /^0*([1-9]|1[0-5])$/.exec(key)?.[1]
    if (slot === undefined) dropped.push(key)
    else if (key === slot || !Object.hasOwn(given, slot)) positions[slot] = place
  }
  return { positions, dropped }
}

const axes = (
  keep_alive: DisplayAxes['keep_alive'],
  topology: DisplayAxes['topology'],
  mode_conflict: DisplayAxes['mode_conflict'],
  identity: DisplayAxes['identity'] = 'per-client',
  mode: LayoutPolicy['mode'] = 'auto-row',
): DisplayAxes => ({
  keep_alive,
  topology,
  mode_conflict,
  identity,
  layout: { mode, positions: {} },
  max_displays: 4,
})
const seconds = (n: number): DisplayAxes['keep_alive'] => ({ mode: 'duration', seconds: n })

/** In the order of the wire's table. */
export const presets: readonly { id: PresetId; summary: string; fields: DisplayAxes }[] = [
  {
    id: 'default',
    summary: 'A display for each client, kept for ten seconds',
    fields: axes(seconds(10), 'auto', 'separate'),
  },
  {
    id: 'gaming-rig',
    summary: 'One player at a time: the newest client takes over, and its desktop stays',
    fields: axes({ mode: 'forever' }, 'exclusive', 'steal'),
  },
  {
    id: 'shared-desktop',
    summary: 'Displays beside the monitors of a desktop in use; nothing is kept',
    fields: axes({ mode: 'off' }, 'extend', 'separate'),
  },
  {
    id: 'hotdesk',
    summary: 'One client at a time; others are told that the host is busy',
    fields: axes(seconds(300), 'exclusive', 'reject', 'per-client-mode'),
  },
  {
    id: 'workstation',
    summary: 'A display for each client where you put it, kept for five minutes',
    fields: axes(seconds(300), 'exclusive', 'separate', 'per-client', 'manual'),
  },
]

/** The axes in force: those of the preset, or the stored ones. */
export function effectiveAxes(settings: DisplaySettings): DisplayAxes {
  const { keep_alive, topology, mode_conflict, identity, layout, max_displays } = settings
  const fields = presets.find(({ id }) => id === settings.preset)?.fields
  if (!fields) return { keep_alive, topology, mode_conflict, identity, layout, max_displays }
  // Only the preset that lays displays out by hand has use for the stored places.
  return fields.layout.mode === 'manual'
    ? { ...fields, layout: { ...fields.layout, positions: layout.positions } }
    : fields
}

export const policyOf = (given: DisplayAxes): DisplayPolicy => ({
  keepAlive: given.keep_alive,
  topology: given.topology,
  modeConflict: given.mode_conflict,
  identity: given.identity,
  layout: given.layout,
  maxDisplays: given.max_displays,
})
