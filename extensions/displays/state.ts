// The display state as it goes over the wire (wire-decisions, "Display state").
import { z } from 'zod'
import type { PooledDisplay } from './display.ts'
import { arrange } from './layout.ts'
import { modeText } from './mode.ts'
import type { LayoutPolicy } from './policy.ts'

export const DisplayEntry = z
  .object({
    slot: z.int().describe('Names the display in a release request'),
    backend: z.string(),
    mode: z.string().describe('WIDTHxHEIGHT@HZ'),
    state: z.enum(['active', 'lingering', 'pinned']),
    expires_in_ms: z.int().nullable().describe('Time left; only while lingering'),
    sessions: z.int().describe('References to it'),
    client: z.string().nullable(),
    group: z.int().describe('Displays of one backend are one group'),
    display_index: z.int().describe('From 0 within the group, in the order of acquire'),
    x: z.int(),
    y: z.int(),
    identity_slot: z.int().nullable().describe('Null for a shared or unidentified client'),
    topology: z.enum(['extend', 'primary', 'exclusive']),
  })
  .meta({ id: 'DisplayEntry' })
export type DisplayEntry = z.output<typeof DisplayEntry>

/** The rows of `GET /display/state`: one for each display that is active or kept. */
export function displayState(
  displays: readonly PooledDisplay[],
  layout: LayoutPolicy,
  nowMs: number,
): DisplayEntry[] {
  const groups = [...Map.groupBy(displays, ({ backend }) => backend.id).values()]
  return groups.flatMap((members, group) => {
    const places = arrange(
      members.map(({ mode, identitySlot }) => ({ width: mode.width, identitySlot })),
      layout,
    )
    return members.flatMap(
      ({ slot, backend, mode, life, request, identitySlot, topology }, display_index) => {
        if (life.state !== 'active' && life.state !== 'lingering' && life.state !== 'pinned') return []
        return {
          slot,
          backend: backend.id,
          mode: modeText(mode),
          state: life.state,
          expires_in_ms: life.state === 'lingering' ? Math.max(0, Math.ceil(life.deadlineMs - nowMs)) : null,
          sessions: life.state === 'active' ? life.sessions : 0,
          client: request.client,
          group,
          display_index,
          ...places[display_index]!,
          identity_slot: identitySlot,
          topology,
        }
      },
    )
  })
}
