// Catalog: signed lists of plugins, what is vouched for and what is blocked.
import { PluginCatalog } from 'svc-host/api/catalog'
import { PluginPackages } from 'svc-host/api/plugins'
import { defineExtension, Extensions, HostInfo } from 'svc-host/sdk'
import { z } from 'zod'
import { entryOf, ownPlatform } from './answer.ts'
import { switchOffBlocked } from './blocked.ts'
import { routes } from './routes.ts'
import { publicKey } from './schema.ts'
import { createSources, SourcesFile } from './sources.ts'

export default defineExtension({
  config: z.object({ url: z.string().optional(), publicKey: publicKey.optional() }),
  deps: { extensions: Extensions, host: HostInfo, packages: PluginPackages },
  async setup(ctx, { extensions, host, packages }) {
    const sources = createSources({
      file: await ctx.document('catalog-sources.json', SourcesFile),
      builtin: ctx.config,
      nowMs: Date.now,
      signal: ctx.signal,
      log: ctx.log,
    })
    ctx.provide(PluginCatalog, sources)
    const answer = async () => {
      const installed = await packages.installed()
      const around = { hostVersion: host.version, platform: ownPlatform, installed, blocked: sources.blocked }
      return {
        host: { version: host.version, platform: ownPlatform },
        sources: sources.rows(),
        plugins: sources.offers().map(offer => entryOf(offer, around)),
        busy: packages.isBusy(),
      }
    }
    const refreshed = async () => {
      await switchOffBlocked(await packages.installed(), sources.blocked, extensions, ctx.log)
      packages.announce()
    }
    ctx.route(...routes({ sources, answer, refreshed }))
  },
})
