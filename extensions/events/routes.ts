// The event stream over the API.
import { route, streamReply } from 'svc-host/sdk'
import { z } from 'zod'
import { cursorOf } from './cursor.ts'
import type { Feed } from './feed.ts'
import { kindFilter } from './kinds.ts'

const Query = z.object({
  kinds: z
    .string()
    .optional()
    .describe('comma-separated kinds, domain.* and *; unknown ones match nothing, empty means all'),
  since: z
    .preprocess(
      text => (typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text),
      z.int().min(0),
    )
    .optional()
    .describe('cursor: sequence number of the last event seen; the header Last-Event-ID wins over it'),
})

export const routes = (feed: Feed) => [
  route({
    method: 'GET',
    path: '/events',
    id: 'streamEvents',
    tag: 'events',
    summary: 'Follow what happens on the host, as Server-Sent Events',
    description:
      'Replays what the ring holds after the cursor (all of it without one), sends the frame `live`, then events as ' +
      'they happen. A first frame `dropped` says that events after the cursor are gone.',
    lanes: { plugin: 'all', device: false },
    query: Query,
    stream: 'text/event-stream',
    errors: { 503: 'too many event streams' },
    handler: ({ query, headers: { 'last-event-id': lastEventId }, signal }) => {
      const cursor = cursorOf(Array.isArray(lastEventId) ? lastEventId[0] : lastEventId, query.since)
      const cut = new AbortController()
      const onBehind = (): void => cut.abort()
      const body = feed.open({ cursor, wants: kindFilter(query.kinds), signal, onBehind })
      const headers = { 'Cache-Control': 'no-cache, no-transform', 'X-Accel-Buffering': 'no' }
      return streamReply(headers, body, cut.signal)
    },
  }),
]
