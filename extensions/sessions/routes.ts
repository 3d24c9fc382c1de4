// The session routes: stop all, ask for a keyframe.
import { HttpError, type Route, reply, route } from 'svc-host/sdk'
import type { Sessions } from './registry.ts'

const lanes = { plugin: 'all', device: false } as const

export const routes = (sessions: Sessions): Route[] => [
  route({
    method: 'DELETE',
    path: '/session',
    id: 'stopSession',
    tag: 'session',
    summary: 'Stop every live session, as a deliberate stop',
    lanes,
    replies: { 204: null },
    handler: async () => {
      await sessions.stopAll('operator')
      return reply(204)
    },
  }),
  route({
    method: 'POST',
    path: '/session/idr',
    id: 'requestIdr',
    tag: 'session',
    summary: 'Ask all live sessions for a keyframe',
    lanes,
    emptyBody: true,
    replies: { 202: null },
    errors: { 409: 'nothing is streaming' },
    handler: () => {
      if (!sessions.requestKeyframe()) throw new HttpError(409, 'nothing is streaming')
      return reply(202)
    },
  }),
]
