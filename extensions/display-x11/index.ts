// Headless X displays: the backend that works on every machine.
import { DisplayPool } from 'svc-host/api/displays'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'
import { createBackend } from './backend.ts'

export default defineExtension({
  config: z.object({
    terminal: z.string().min(1).max(1000).default('xterm'),
    wallpaper: z.boolean().default(true),
    maxWidth: z.int().min(64).max(7680).default(3840),
    maxHeight: z.int().min(64).max(4320).default(2160),
  }),
  deps: { pool: DisplayPool },
  async setup(ctx, { pool }) {
    const backend = createBackend(ctx, ctx.config, ctx.log)
    await ctx.effect('display backend x11', () => pool.register(backend))
  },
})
