// The smallest extension: one route, with a config value in its answer.
import { defineExtension, route } from 'svc-host/sdk'
import { z } from 'zod'

export default defineExtension({
  config: z.object({ greeting: z.string().min(1).default('Hello') }),
  setup(ctx) {
    ctx.route(
      route({
        method: 'GET',
        path: '/ext/hello-route/greetings/{name}',
        id: 'getGreeting',
        tag: 'hello-route',
        summary: 'Greet somebody by name',
        lanes: { plugin: false, device: false },
        params: z.object({ name: z.string().max(40) }),
        query: z.object({ times: z.coerce.number().int().min(1).max(3).default(1) }),
        replies: { 200: z.object({ text: z.string() }) },
        handler: ({ params, query }) => ({
          text: Array(query.times).fill(`${ctx.config.greeting}, ${params.name}!`).join(' '),
        }),
      }),
    )
  },
})
