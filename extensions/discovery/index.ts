// Discovery: tells anyone who asks that a host is here, and how to talk to it.
import { ApiRoutes, defineExtension, HostInfo } from 'svc-host/sdk'
import { createApiDocument } from './document.ts'
import { routes } from './routes.ts'

export default defineExtension({
  deps: { host: HostInfo, api: ApiRoutes },
  setup(ctx, { host, api }) {
    ctx.route(...routes(host.version, createApiDocument(api)))
  },
})
