// The log over the API, for the operator only.
import { type HostLog, route } from 'svc-host/sdk'
import { z } from 'zod'
import { LogPage } from './api.ts'
import { pageAfter, pageSize } from './page.ts'

const whole = z.preprocess(
  text => (typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text),
  z.int().min(0),
)

export const routes = (log: HostLog) => [
  route({
    method: 'GET',
    path: '/logs',
    id: 'logsGet',
    tag: 'logs',
    summary: 'Read the newest log entries, a page at a time',
    description:
      'The newest 4096 entries at debug level and above are kept, whatever level the host prints. A cursor above ' +
      'the newest entry is from before a restart: the page is empty and `dropped`; begin again at 0.',
    lanes: { plugin: false, device: false },
    query: z.object({
      after: whole.default(0).describe('cursor: `next` of the page before; 0 begins at the oldest kept'),
      limit: whole.default(pageSize).describe('entries at most; 1000 is the most and the default'),
    }),
    replies: { 200: LogPage },
    handler: ({ query }) => pageAfter(log, query.after, query.limit),
  }),
]
