// Events: the kernel's bus as a stream that a reader can leave and take up again without losing anything.
import { defineExtension, EventBus } from 'svc-host/sdk'
import { z } from 'zod'
import { createFeed } from './feed.ts'
import { routes } from './routes.ts'

export default defineExtension({
  config: z.object({ heartbeatMs: z.int().min(50).max(60_000).default(15_000) }),
  deps: { bus: EventBus },
  async setup(ctx, { bus }) {
    const feed = createFeed(bus)
    await ctx.effect('heartbeat', () => {
      const timer = setInterval(() => feed.heartbeat(), ctx.config.heartbeatMs)
      return () => clearInterval(timer)
    })
    ctx.route(...routes(feed))
  },
})
