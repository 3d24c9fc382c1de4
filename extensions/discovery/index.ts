// Discovery: tells anyone who asks that a host is here, and how to talk to it.
import { ApiRoutes, defineExtension, HostInfo } from 'svc-host/sdk'
import { createApiDocument } from './document.ts'
import { openApiDocument } from './openapi.ts'
import { referenceFiles } from './reference.ts'
import { routes } from './routes.ts'

export default defineExtension({
  deps: { host: HostInfo, api: ApiRoutes },
  setup(ctx, { host, api }) {
    const info = { title: 'svc-host management API', version: host.version }
    const reference = referenceFiles()
    if (reference.length === 0)
      ctx.log.warn('the API reference page is left out: swagger-ui-dist is not installed; run npm ci')
    const document = createApiDocument(api, live => openApiDocument(live, info))
    ctx.route(...routes(host.version, document, reference))
  },
})
