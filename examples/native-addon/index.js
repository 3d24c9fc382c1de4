// Tells how busy the machine is: native code in a process of its own, where all that it can bring down is itself.
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { defineExtension, route } from 'svc-host/sdk'
import { z } from 'zod'

const { readLoad } = createRequire(import.meta.url)('./build/Release/load.node')

export default defineExtension({
  setup(ctx) {
    ctx.route(
      route({
        method: 'GET',
        path: '/ext/native-addon/load',
        summary: 'Read how busy the machine is',
        lanes: { plugin: false, device: false },
        replies: {
          200: z.object({
            perCore: z.number().describe('tasks that run or wait for a core, over a minute, by core'),
            freeBytes: z.number(),
            totalBytes: z.number(),
            uptimeSeconds: z.number(),
          }),
        },
        handler() {
          const { oneMinute, ...memory } = readLoad()
          return { perCore: oneMinute / cpus().length, ...memory }
        },
      }),
    )
  },
})
