// Logs: the host's newest log lines over the API.
import { defineExtension, HostLog } from 'svc-host/sdk'
import { routes } from './routes.ts'

export default defineExtension({
  deps: { log: HostLog },
  setup(ctx, { log }) {
    ctx.route(...routes(log))
  },
})
