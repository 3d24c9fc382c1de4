// Registrations: plugins that run beside the host, and whose tokens they come with.
import { storeChanged } from 'svc-host/api/plugins'
import { defineExtension, HostInfo, PluginTokens } from 'svc-host/sdk'
import { pluginsChanged } from './api.ts'
import { createRegistry } from './registry.ts'
import { routes } from './routes.ts'
import { createTokens, readTokens } from './tokens.ts'

export default defineExtension({
  deps: { host: HostInfo },
  async setup(ctx, { host }) {
    const onChange = (id: string): void => ctx.emit(pluginsChanged, { id })
    const registry = createRegistry({ nowMs: () => performance.now(), onChange })
    ctx.provide(PluginTokens, createTokens(host.configDir))
    let known = Object.keys(await readTokens(host.configDir))
    // With its package goes the token of a plugin, and with that its registration.
    ctx.on(storeChanged, async () => {
      const now = Object.keys(await readTokens(host.configDir))
      for (const id of known) if (!now.includes(id)) registry.remove(id)
      known = now
    })
    ctx.route(...routes(registry, ctx.log))
  },
})
