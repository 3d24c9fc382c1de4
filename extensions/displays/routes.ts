// The display routes of this version: what there is, and the release of what is kept.
import { HttpError, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'
import type { Pool } from './pool.ts'
import { DisplayEntry } from './state.ts'

const lanes = { plugin: 'all', device: false } as const

export const routes = (pool: Pool, state: () => DisplayEntry[]): Route[] => [
  route({
    method: 'GET',
    path: '/display/state',
    id: 'getDisplayState',
    tag: 'display',
    summary: 'The virtual displays that are active or kept',
    lanes,
    replies: { 200: z.object({ displays: z.array(DisplayEntry) }) },
    handler: () => ({ displays: state() }),
  }),
  route({
    method: 'POST',
    path: '/display/release',
    id: 'releaseDisplay',
    tag: 'display',
    summary: 'Release one kept display, or all of them',
    description: 'Without a slot all lingering and pinned displays go; those with a session stay.',
    lanes,
    body: z.object({ slot: z.int().nullish() }),
    emptyBody: true,
    replies: { 200: z.object({ released: z.int() }) },
    errors: { 404: 'there is no display with this slot', 409: 'a session uses this display' },
    handler: async ({ body }) => {
      const released = await pool.releaseKept(body.slot ?? undefined)
      if (released === 'not-found') throw new HttpError(404, 'display not found')
      if (released === 'in-use') throw new HttpError(409, 'display is in use')
      return { released }
    },
  }),
]
