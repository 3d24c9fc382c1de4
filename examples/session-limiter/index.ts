// Refuses sessions beyond a number, except to those who are always let in: a tap on `session.admit`, with a config.
import { sessionAdmit, sessionEnded, sessionStarted } from 'svc-host/api/sessions'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'

export default defineExtension({
  config: z.object({
    maxSessions: z.number().int().min(0).max(64).default(1).describe('sessions that may run at once'),
    alwaysLetIn: z
      .array(z.string().regex(/^[0-9a-f]{16,64}$/))
      .default([])
      .describe('fingerprints, or their first 16 characters, that the limit is not for'),
  }),
  setup(ctx) {
    const { maxSessions, alwaysLetIn } = ctx.config
    // Those that ran before this was switched on are not counted.
    const running = new Set<number>()
    ctx.on(sessionStarted, ({ session }) => void running.add(session.id))
    ctx.on(sessionEnded, ({ session }) => void running.delete(session.id))
    ctx.tap(sessionAdmit, ({ fingerprint, name }) => {
      if (running.size < maxSessions) return undefined
      if (alwaysLetIn.some(prefix => fingerprint?.startsWith(prefix))) return undefined
      ctx.log.info(`refused ${name}: ${running.size} of ${maxSessions} sessions run`)
      return { refuse: `${running.size} sessions run already, and ${maxSessions} may; try again later` }
    })
  },
})
