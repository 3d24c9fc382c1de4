// Sessions: the registry of live sessions on all planes.
import { statusCollect, summaryCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { SessionRegistry, sessionAdmit, sessionEnforced } from './api.ts'
import { createSessions } from './registry.ts'
import { routes } from './routes.ts'
import { SessionSettingsInput, settingsRoutes } from './settings.ts'
import { addToStatus, addToSummary } from './status.ts'

export default defineExtension({
  async setup(ctx) {
    const sessions = createSessions({
      emit: ctx.emit,
      ask: ctx.hookPoint(sessionAdmit),
      onError: (message, error) => ctx.log.error(message, { err: error }),
    })
    await ctx.effect('live sessions', () => () => sessions.stopAll('stopping'))
    ctx.provide(SessionRegistry, sessions)
    const settings = await ctx.document('session-settings.json', SessionSettingsInput)
    const enforced = ctx.hookPoint(sessionEnforced)
    ctx.route(...routes(sessions), ...settingsRoutes(settings, () => enforced([])))
    ctx.tap(statusCollect, record => addToStatus(record, sessions.live(), performance.now()))
    ctx.tap(summaryCollect, summary => addToSummary(summary, sessions.live()))
  },
})
