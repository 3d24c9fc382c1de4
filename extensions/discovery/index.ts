// Discovery: tells anyone who asks that a host is here, and how to talk to it.
import { ApiRoutes, defineExtension, HostInfo } from 'svc-host/sdk'
import { createApiDocument } from './document.ts'
import { referenceFiles } from './reference.ts'
import { routes } from './routes.ts'

export default defineExtension({
  deps: { host: HostInfo, api: ApiRoutes },
  setup(ctx, { host, api }) {
    const reference = referenceFiles()
    if (reference.length === 0)
      ctx.log.warn('the API reference page is left out: swagger-ui-dist is not installed; run npm ci')
    ctx.route(...routes(host.version, createApiDocument(api), reference))
  },
})
