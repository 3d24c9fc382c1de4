// The boot, step by step; each step keeps its way back, and the stop walks them down from wherever it stands.
import { existsSync } from 'node:fs'
import { access, chmod, constants, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import about from 'svc-host/package.json' with { type: 'json' }
import {
  ApiRoutes,
  CertificateIdentity,
  DescribeHost,
  DeviceRegistry,
  EventBus,
  Extensions,
  type HostIdentity,
  HostInfo,
  HostLog,
  HostStarted,
  HostStopping,
  PluginTokens,
} from 'svc-host/sdk'
import './modules.ts'
import { parseOrigins } from './browsers.ts'
import { createConfigs } from './config.ts'
import { createConfigured } from './configured.ts'
import type { Reach, Registered } from './context.ts'
import { discoverExtensions, type Found } from './discover.ts'
import { createFaults, messageOf, UsageError, within } from './errors.ts'
import { type Bus, createBus } from './events.ts'
import { createLife, kernelOwner } from './extensions.ts'
import { createHooks } from './hooks.ts'
import { createFront, type Front } from './http.ts'
import { loadIdentity } from './identity.ts'
import { openJournal } from './journal.ts'
import { openLedger } from './ledger.ts'
import { undoLeftovers } from './leftovers.ts'
import { type BindAddress, DEFAULT_BIND, parseBind } from './listener.ts'
import { takeLock } from './lock.ts'
import { createLog, type LogSink } from './log.ts'
import { createPermits, createRights, type Rights } from './permissions.ts'
import { closeInherited, startProcess } from './process.ts'
import { createRealms, isApart, type RealmsOptions } from './realms/realms.ts'
import { absentFrom } from './reasons.ts'
import { createRoster } from './roster.ts'
import { extensionRoutes } from './routes.ts'
import { createEffects } from './scope.ts'
import { createServices, type Services } from './services.ts'
import { type Flags, givenFor, overridesOf, readHostEnv, type Sources } from './settings.ts'
import { catchStrays } from './strays.ts'
import { loadAdminToken, writeEndpoint } from './tokens.ts'

/** All that a stop may take; what is left then is undone at the next start. */
const stopLimitMs = 5000
const farewellLimitMs = 1500

export interface HostOptions extends Pick<RealmsOptions, 'clock' | 'budgets'> {
  readonly configDir: string
  readonly flags?: Flags
  readonly env?: NodeJS.ProcessEnv
  /** Start built-in extensions only. */
  readonly safe?: boolean
  /** What to run instead of the built-ins. */
  readonly found?: readonly Found[]
  readonly sink?: LogSink
  /** Aborted: a start under way waits for nobody any more; the stop is still the caller's. */
  readonly signal?: AbortSignal
  /** True: the process belongs to somebody else, who sees to errors that nobody caught. */
  readonly isEmbedded?: boolean
}

export interface Host {
  readonly extensions: Extensions
  readonly front: Front
  readonly bus: Bus
  readonly services: Services
  readonly identity: HostIdentity
  readonly adminToken: string
  stop(): Promise<void>
}

export async function startHost(options: HostOptions): Promise<Host> {
  const { configDir, flags = {}, env = process.env, safe = false } = options
  await prepareFolder(configDir)
  const hostEnv = await readHostEnv(configDir)
  const sources = { flags, env, hostEnv }
  const { logOf, ring } = createLog(env['SVC_LOG'] ?? hostEnv['SVC_LOG'], options.sink)
  const log = logOf(kernelOwner)
  const warn = (message: string): void => log.warn(message)
  const faults = createFaults(logOf)
  const steps = createEffects(kernelOwner, faults.report)
  try {
    steps.add('lock', takeLock(configDir))
    if (!options.isEmbedded) {
      closeInherited()
      steps.add('stray errors', catchStrays(faults, log))
    }
    const find = () => discoverExtensions(configDir, { safe, found: options.found })
    const early = await find()
    const overridesFor = (each: Found) => overridesOf(each, sources)
    early.forEach(overridesFor)
    const bind = readBind(sources)

    const journal = await openJournal(join(configDir, 'journal'), log)
    steps.add('journal', () => journal.close())
    const ledger = await openLedger(configDir, warn)
    await undoLeftovers(journal, early, ledger, log)

    const identity = await loadIdentity(configDir, warn)
    const adminToken = await loadAdminToken(configDir, env, warn)
    const rightsOf = createRights(ledger, createConfigured(configDir))

    const bus = createBus(faults.report)
    const hooks = createHooks(faults.report, {
      isOn: owner => life.isOn(owner),
      absent: (point, left) => absentFrom(point, left, roster.all, rightsOf),
    })
    const services = createServices(owner => life.isOn(owner))
    const front = createFront({
      bind,
      identity,
      adminToken,
      devices: () => services.get(DeviceRegistry),
      plugins: () => services.get(PluginTokens),
      origins: parseOrigins(String(givenFor({ env: 'SVC_BROWSER_ORIGINS' }, sources)?.value ?? '')),
      may: (id, permission) =>
        roster.get(id) && !rights(id).isFree ? rights(id).has(permission) : undefined,
      report: faults.report,
    })
    // Taking back an update that was cut short changes what there is to find.
    const roster = createRoster(await find(), { find, overridesOf: overridesFor, ledger, logOf })
    const rights = (id: string): Rights => rightsOf(roster.get(id)!.found)
    const routes = new Set<Registered>()
    const parts: Omit<Reach, 'report' | 'changed' | 'leaving'> = {
      configDir,
      services,
      bus,
      hooks,
      journal,
      routes,
      call: front.call,
      rightsOf: rights,
      usageOf: owner => realms.usageOf(owner),
      load: (found, effects) => (isApart(found) ? realms.load(found, effects) : found.load()),
    }
    const life = createLife({ roster, ledger, faults, front, ...parts })
    const configs = createConfigs({ ...parts, roster, ledger, life, report: faults.report })
    const extensions = { ...life, ...configs, ...createPermits({ roster, ledger, life }) }
    const sandboxes = steps.child('sandboxes')
    const realms = createRealms({
      ...options,
      start: (label, spec) => startProcess(sandboxes, { journal, configDir, log }, label, spec),
      log,
      logOf,
      isTrusted: ledger.isTrusted,
      services,
      rightsOf,
      signal: steps.signal,
      mistakesOf: owner => ({ errors: faults.count(owner), lateTaps: hooks.late(owner) }),
      report: faults.report,
      blame: life.blame,
      quarantine: ledger.quarantine,
    })

    await front.listen()
    steps.add('listener', () => front.close())
    const { port: mgmtPort } = front
    await writeEndpoint(configDir, mgmtPort, bind.host)

    const version = about.version
    services.offer(kernelOwner, EventBus, bus)
    services.offer(kernelOwner, HostLog, ring)
    services.offer(kernelOwner, Extensions, extensions)
    services.offer(kernelOwner, CertificateIdentity, identity)
    services.offer(kernelOwner, HostInfo, { version, configDir, mgmtPort, startedUnixMs: Date.now() })
    services.offer(kernelOwner, ApiRoutes, { list: front.routes })
    for (const route of extensionRoutes(extensions))
      routes.add({ owner: kernelOwner, route, signal: steps.signal, scope: steps })
    const describe = hooks.own(kernelOwner, DescribeHost as never)

    steps.add('extensions', () => life.stop())
    const givenUp = new Promise(done => options.signal?.addEventListener('abort', done, { once: true }))
    await Promise.race([life.reconcile(), givenUp])
    if (!options.signal?.aborted) {
      bus.emit(HostStarted, { ...((await describe.call({})) as object), version })
      log.info(`svc-host ${version} is ready on port ${mgmtPort}`, { configDir })
    }

    const stop = async (): Promise<void> => {
      bus.emit(HostStopping, {})
      log.info('stopping')
      // Those who end something of their own do so while everybody is still there to hear of it.
      await within(farewellLimitMs, bus.settled()).catch(() => {})
      try {
        await within(stopLimitMs - farewellLimitMs, steps.close())
        log.info('stopped')
      } catch {
        const left = journal.live().length
        log.error(`the stop took over ${stopLimitMs} ms; the next start undoes the ${left} effects left`)
      }
    }
    let stopped: Promise<void> | undefined
    return {
      extensions,
      front,
      bus,
      services,
      identity,
      adminToken,
      stop: () => (stopped ??= stop()),
    }
  } catch (error) {
    await steps.close()
    throw error
  }
}

/** Not mkdir's own `recursive`: that never ends where a file system, such as /proc, knows of no new folders. */
async function makeFolder(path: string): Promise<void> {
  const outer = dirname(path)
  if (outer !== path && !existsSync(outer)) await makeFolder(outer)
  if (!existsSync(path)) await mkdir(path, { mode: 0o700 })
}

async function prepareFolder(configDir: string): Promise<void> {
  try {
    await makeFolder(configDir)
    const names = await readdir(configDir)
    await access(configDir, constants.W_OK)
    if (((await stat(configDir)).mode & 0o077) !== 0) {
      // Others may need what it holds, as they do /etc or /tmp: such a folder is not closed to them.
      const isOurs = names.length === 0 || names.includes('lock') || names.includes('host.env')
      if (!isOurs)
        throw new Error('it holds what is not of this host, and others may look into it (chmod 700)')
      await chmod(configDir, 0o700)
    }
  } catch (error) {
    throw new Error(
      `the config folder ${configDir} cannot be used: ${messageOf(error)}; set SVC_CONFIG_DIR to another`,
    )
  }
}

function readBind(sources: Sources): BindAddress {
  const given = givenFor({ flag: 'mgmt-bind', env: 'SVC_MGMT_BIND' }, sources)
  try {
    return parseBind(String(given?.value ?? DEFAULT_BIND))
  } catch (error) {
    throw new UsageError(`${given!.source}: ${messageOf(error)}`)
  }
}
