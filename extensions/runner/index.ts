// The plugin runner: whether it is on, and its process while this host runs.
import { defineExtension, HostInfo, ProcessRealm } from 'svc-host/sdk'
import { z } from 'zod'
import { PluginUnits, runnerChanged } from './api.ts'
import { createHostedRunner, keepToken } from './hosted.ts'
import { createProcessRealm } from './realm.ts'
import { routes } from './routes.ts'
import { RunnerChoice } from './schema.ts'

export default defineExtension({
  config: z.object({
    isSafe: z.boolean().default(false).describe('as serve --safe: nothing is run'),
    program: z
      .string()
      .default('')
      .describe('started as the runner; empty: the one that comes with the host'),
  }),
  deps: { host: HostInfo },
  async setup(ctx, { host }) {
    const { configDir } = host
    const given = process.env['SVC_PLUGIN_TOKEN']
    delete process.env['SVC_PLUGIN_TOKEN']
    if (given) await keepToken(configDir, true, given)
    const runner = createHostedRunner({
      configDir,
      choice: await ctx.document('runner.json', RunnerChoice),
      ...ctx.config,
      log: ctx.log,
      start: spec => ctx.process('plugin runner', spec),
      onChange({ enabled, running }) {
        if (!ctx.signal.aborted) ctx.emit(runnerChanged, { enabled, running })
      },
    })
    ctx.provide(ProcessRealm, createProcessRealm(ctx, host))
    ctx.provide(PluginUnits, { states: async () => (await runner.state()).units })
    ctx.route(...routes(runner))
    await ctx.effect('plugin runner', () => runner.begin())
  },
})
