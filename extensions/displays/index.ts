// Virtual displays: the pool as a service, its state and release over the API.
import { summaryCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'
import { DisplayPool, displayClear, displayCreated, displayPrepare, displayReleased } from './api.ts'
import type { Clock } from './clock.ts'
import { compositorRoute } from './compositors.ts'
import { modeText } from './mode.ts'
import { createPool } from './pool.ts'
import { createRooms } from './rooms.ts'
import { routes } from './routes.ts'
import { DisplaySettingsInput, effectiveAxes, policyOf } from './settings.ts'
import { settingsRoutes } from './settings-routes.ts'
import { displayState } from './state.ts'

const clock: Clock = {
  nowMs: () => performance.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs)
    return () => clearTimeout(timer)
  },
}

export default defineExtension({
  config: z.object({
    source: z.enum(['software']).optional(),
    compositor: z.enum(['x11', 'kwin', 'mutter', 'gamescope', 'wlroots', 'hyprland']).optional(),
  }),
  async setup(ctx) {
    const file = await ctx.document('display-settings.json', DisplaySettingsInput)
    const policy = () => policyOf(effectiveAxes(file.value))
    const pool = createPool({
      choice: ctx.config,
      policy,
      clock,
      rooms: createRooms(ctx.hookPoint(displayPrepare), ctx.hookPoint(displayClear)),
      onCreated: (backend, mode) => ctx.emit(displayCreated, { backend, mode: modeText(mode) }),
      onReleased: count => ctx.emit(displayReleased, { count }),
      onTrouble: (message, error) => ctx.log.error(message, { err: error }),
    })
    await ctx.effect('display pool', () => () => pool.close())
    ctx.provide(DisplayPool, pool)
    ctx.route(...routes(pool, () => displayState(pool.displays(), policy().layout, clock.nowMs())))
    ctx.route(...settingsRoutes(file, ctx.log), compositorRoute(pool.backends, ctx.config))
    ctx.tap(summaryCollect, async summary => ({ ...summary, kept_displays: await pool.kept() }))
  },
})
