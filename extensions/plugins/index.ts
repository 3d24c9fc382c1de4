// Plugins: what is installed beside the built-ins, and installing, updating and removing it while the host runs.
import { PluginCatalog } from 'svc-host/api/catalog'
import { PluginPackages, permissionsChanged, storeChanged, storeProgressed } from 'svc-host/api/plugins'
import { PluginUnits } from 'svc-host/api/runner'
import { defineExtension, Extensions, HostInfo } from 'svc-host/sdk'
import { configRoutes } from './config-routes.ts'
import { hostNpm } from './host-npm.ts'
import { installedPackages, installedRows } from './installed.ts'
import { createJobs } from './jobs.ts'
import { readLedger } from './ledger.ts'
import { createNpm } from './npm.ts'
import { createPackages } from './packages.ts'
import { permissionRoutes } from './permission-routes.ts'
import { routes } from './routes.ts'
import { whileThere } from './while-there.ts'

const nowUnix = (): number => Math.floor(Date.now() / 1000)

export default defineExtension({
  deps: { extensions: Extensions, host: HostInfo },
  async setup(ctx, { extensions, host: { configDir } }) {
    const catalog = whileThere(ctx, PluginCatalog)
    const units = whileThere(ctx, PluginUnits)
    const jobs = createJobs({
      now: nowUnix,
      onChange({ id: job, kind: job_kind, target, state, phase }) {
        if (ctx.signal.aborted) return
        ctx.emit(storeProgressed, { job, job_kind, target, state, phase })
        if (state !== 'running') ctx.emit(storeChanged, {})
      },
    })
    const packages = createPackages({
      configDir,
      extensions,
      jobs,
      npm: createNpm(hostNpm(ctx), `${configDir}/plugins/.work`, ctx.signal),
      log: ctx.log,
      signal: ctx.signal,
      nowUnix,
      catalog,
      guarded: async work => (await ctx.durable('package', { configDir }, work)).undo(),
    })
    const ledger = () => readLedger(packages.layout)
    await packages.tidy().catch(error => ctx.log.warn('leftovers of an earlier run stay', { err: error }))
    ctx.route(...configRoutes(extensions))
    ctx.provide(PluginPackages, {
      installed: async () => installedPackages(await ledger()),
      isBusy: jobs.isBusy,
      announce: () => ctx.emit(storeChanged, {}),
    })
    const rows = async () =>
      installedRows(await ledger(), extensions.list(), catalog(), (await units()?.states()) ?? [])
    const onChange = (id: string): void => ctx.emit(permissionsChanged, { id })
    ctx.route(...routes({ packages, jobs, rows }), ...permissionRoutes({ extensions, ledger, onChange }))
  },
})
