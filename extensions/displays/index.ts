// Virtual displays: the pool as a service, its state and release over the API.
import { summaryCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'
import { DisplayPool, displayCreated, displayReleased } from './api.ts'
import { modeText } from './mode.ts'
import { defaultPolicy } from './policy.ts'
import { type Clock, createPool } from './pool.ts'
import { routes } from './routes.ts'
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
    const pool = createPool({
      choice: ctx.config,
      policy: () => defaultPolicy,
      clock,
      onCreated: (backend, mode) => ctx.emit(displayCreated, { backend, mode: modeText(mode) }),
      onReleased: count => ctx.emit(displayReleased, { count }),
      onTrouble: (message, error) => ctx.log.error(message, { err: error }),
    })
    await ctx.effect('display pool', () => () => pool.close())
    ctx.provide(DisplayPool, pool)
    ctx.route(...routes(pool, () => displayState(pool.displays(), defaultPolicy.layout, clock.nowMs())))
    ctx.tap(summaryCollect, async summary => ({ ...summary, kept_displays: await pool.kept() }))
  },
})
