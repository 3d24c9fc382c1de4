// Status: who this host is and what it is doing, collected from whoever has something to say.
import { hostname } from 'node:os'
import { CertificateIdentity, DescribeHost, defineExtension, HostInfo } from 'svc-host/sdk'
import { z } from 'zod'
import { HostNames, hostCollect, statusCollect, summaryCollect } from './api.ts'
import { createCollector } from './collector.ts'
import { openHostId } from './host-id.ts'
import { createHostInfo } from './host-info.ts'
import { readOs } from './os.ts'
import { routes } from './routes.ts'

export default defineExtension({
  config: z.object({ hostName: z.string().trim().max(63).default('') }),
  deps: { host: HostInfo, identity: CertificateIdentity },
  async setup(ctx, { host, identity }) {
    const collector = createCollector({
      host: ctx.hookPoint(hostCollect),
      status: ctx.hookPoint(statusCollect),
      summary: ctx.hookPoint(summaryCollect),
      version: host.version,
      warn: ctx.log.warn,
    })
    const name = ctx.config.hostName || hostname()
    const uniqueId = await openHostId(ctx)
    const hostInfo = createHostInfo({
      facts: collector.host,
      host,
      fingerprint: identity.fingerprint,
      uniqueId,
      hostName: name,
      os: await readOs(),
    })
    ctx.tap(DescribeHost, async facts => ({ ...facts, compat: (await collector.host()).compat }))
    ctx.provide(HostNames, { name, id: uniqueId })
    ctx.route(...routes(collector, hostInfo))
  },
})
