// The isolate realm: turns a stranger's package into an extension of the kernel whose every call crosses a bridge, keeps
// the sandbox processes, and sees to it that whoever breaks one breaks it for nobody else.
import type { Extension, ExtensionRecord, Log } from 'svc-host/sdk'
import { z } from 'zod'
import type { Found } from '../discover.ts'
import { messageOf } from '../errors.ts'
import type { Rights } from '../permissions.ts'
import type { Effects } from '../scope.ts'
import type { Services } from '../services.ts'
import { type Cell, createCell, type Serve } from './cell.ts'
import { createFlow } from './flow.ts'
import { collect } from './modules.ts'
import { type Ending, type History, judge } from './policy.ts'
import { createPump } from './pump.ts'
import { type Sandbox, type StartProcess, startSandbox } from './sandbox.ts'
import { revive } from './schemas.ts'
import { methodsOf } from './services.ts'
import type { Clock } from './timers.ts'
import { createServe } from './verbs.ts'

const mistakesPerSecond = 10
/** Heap of one extension. */
const memoryMb = 64
/** How long a shared process is kept for the next one. */
const idleMs = 30_000

const Token = z.object({ id: z.string(), version: z.string() })
const Definition = z.object({
  config: z.unknown(),
  /** Says what is wrong with a config, which JSON Schema alone cannot. */
  check: z.int().nullish(),
  deps: z.record(z.string(), Token),
  setup: z.int().nullable(),
})

const isSchema = (value: unknown): value is object => typeof value === 'object' && value !== null
const Issues = z
  .array(z.object({ path: z.array(z.union([z.string(), z.number()])), message: z.string().max(1000) }))
  .max(100)

export interface RealmsOptions {
  readonly start: StartProcess
  readonly log: Log
  readonly services: Services
  rightsOf(found: Found): Rights
  readonly clock?: Clock | undefined
  report(owner: string, during: string, error: unknown): void
  /** Stops an extension for this reason; without one it may start again. */
  blame(owner: string, why?: string): Promise<void>
  /** It does not start again by itself, in later runs of the host either. */
  quarantine(owner: string, why: string): Promise<void>
}

/** Whether this extension runs behind a bridge. */
export const isApart = ({ manifest }: Found): boolean => manifest?.realm === 'isolate'

/** What one extension has used since the start of the host; null: it cannot be told apart. */
type Usage = Pick<ExtensionRecord, 'restarts' | 'cpu_ms' | 'memory_bytes'>

export interface Realms {
  /** Loads a package into an isolate that leaves with `effects`. */
  load(found: Found, effects: Effects): Promise<Extension>
  usageOf(owner: string): Usage
}

interface Tenant {
  readonly owner: string
  readonly cell: Cell
}

export function createRealms(options: RealmsOptions): Realms {
  const { log, services, report } = options
  const histories = new Map<string, History>()
  const tenants = new Map<number, Tenant>()
  const spentMs = new Map<string, number>()
  let shared: Promise<Sandbox> | undefined
  let lastCell = 0

  const historyOf = (owner: string): History => {
    const history = histories.get(owner) ?? { isAlone: false, endings: [], restarts: 0 }
    histories.set(owner, history)
    return history
  }

  const ended = async (owner: string, ending: Ending, why: string): Promise<void> => {
    const verdict = judge(historyOf(owner), ending, why, Date.now(), Math.random())
    if (ending !== 'neighbour') report(owner, 'its isolate', new Error(why))
    if ('quarantine' in verdict) await options.quarantine(owner, verdict.quarantine)
    await options.blame(owner, `its isolate has ended: ${why}`)
    if (!('againInMs' in verdict)) return
    await new Promise(done => setTimeout(done, verdict.againInMs).unref())
    await options.blame(owner)
  }

  const leave = (number: number): void => {
    const tenant = tenants.get(number)
    if (!tenant) return
    tenants.delete(number)
    spentMs.set(tenant.owner, (spentMs.get(tenant.owner) ?? 0) + tenant.cell.cpuMs())
  }

  /** Starts a process; at its end everybody in it is told, and the one whose code was running is held to account. */
  const open = async (label: string, members: Set<number>): Promise<Sandbox> => {
    const sandbox = await startSandbox(options.start, label, log)
    void sandbox.ended.then(({ why, culprit }) => {
      const lost = [...members].flatMap(number => {
        const tenant = tenants.get(number)
        leave(number)
        return tenant ? [{ number, ...tenant }] : []
      })
      if (lost.length) log.warn(`${label}: ${why}; ${lost.length} extensions start again`)
      // The next one is on its way before anybody asks for it.
      const innocent = lost.find(({ number }) => number !== culprit)
      if (innocent) void pick(innocent.owner).catch(() => {})
      for (const { number, owner, cell } of lost) {
        const isCulprit = number === culprit
        const reason = isCulprit ? why : 'its sandbox was brought down by another'
        cell.end(reason)
        void ended(owner, isCulprit ? 'process' : 'neighbour', reason).catch(error =>
          log.error(messageOf(error)),
        )
      }
    })
    return sandbox
  }

  const membersOf = new WeakMap<Sandbox, Set<number>>()
  const pick = async (owner: string): Promise<Sandbox> => {
    const isAlone = historyOf(owner).isAlone
    if (!isAlone && shared) {
      const sandbox = await shared.catch(() => undefined)
      if (sandbox && !sandbox.hasEnded) return sandbox
      shared = undefined
      return pick(owner)
    }
    const members = new Set<number>()
    const opened = open(isAlone ? `sandbox of ${owner}` : 'sandbox', members).then(sandbox => {
      membersOf.set(sandbox, members)
      return sandbox
    })
    if (!isAlone) shared = opened
    return opened
  }
  const release = (sandbox: Sandbox, number: number): void => {
    const members = membersOf.get(sandbox)!
    members.delete(number)
    leave(number)
    setTimeout(() => members.size === 0 && sandbox.end('nobody is in it any more'), idleMs).unref()
  }

  return {
    async load(found, effects) {
      const { id: owner, mainFile } = found
      const modules = { memoryMb, ...(await collect(mainFile!)) }
      const sandbox = await pick(owner)
      lastCell += 1
      const number = lastCell
      let definition: z.output<typeof Definition> | undefined
      let serve: Serve = verb => {
        throw new Error(`${verb} has to wait for the setup`)
      }
      let refused: unknown[] | undefined = []
      const mayReport = createFlow(mistakesPerSecond, count =>
        report(owner, 'its isolate', new Error(`${count} more mistakes within a second`)),
      )
      const told = {
        report(during: string, error: unknown): void {
          if (refused) refused.push(error)
          else if (mayReport()) report(owner, during, error)
        },
        lost(why: string): void {
          release(sandbox, number)
          void ended(owner, 'isolate', why).catch(error => log.error(messageOf(error)))
        },
      }
      const cell = createCell('isolate', told, hands => createPump(sandbox, number, modules, hands))
      membersOf.get(sandbox)!.add(number)
      tenants.set(number, { owner, cell })
      effects.add('isolate', async () => {
        await cell.close()
        release(sandbox, number)
      })
      await cell.open((verb, args) => {
        if (verb !== 'define') return serve(verb, args)
        definition ??= Definition.parse(args[0])
        return undefined
      })
      if (refused.length) throw refused[0]
      if (!definition?.setup) throw new Error('the main module has no default export made by defineExtension')
      const { config, check, deps, setup } = definition
      return {
        ...(isSchema(config) && {
          configSchema: config,
          config: revive(config).superRefine(async (values, refine) => {
            for (const issue of Issues.parse(check ? await cell.call(check, [values]) : []))
              refine.addIssue({ code: 'custom', ...issue })
          }),
        }),
        deps,
        async setup(ctx) {
          const rights = options.rightsOf(found)
          const onClose = (stop: () => void): void => void effects.add('timers', stop)
          serve = createServe({ ctx, cell, services, rights, clock: options.clock, onClose })
          const methods = Object.fromEntries(
            Object.entries(deps).map(([name, { id }]) => [name, Object.keys(methodsOf(services, id))]),
          )
          await cell.call(setup, [
            { id: ctx.id, version: ctx.version, decided: rights.decided },
            ctx.config,
            methods,
          ])
          const [first] = refused ?? []
          refused = undefined
          if (first) throw first
        },
      }
    },
    usageOf(owner) {
      const tenant = [...tenants.values()].find(each => each.owner === owner)
      const spent = spentMs.get(owner)
      return {
        restarts: histories.get(owner)?.restarts ?? 0,
        cpu_ms: tenant || spent !== undefined ? (tenant?.cell.cpuMs() ?? 0) + (spent ?? 0) : null,
        memory_bytes: tenant ? tenant.cell.memoryBytes() : null,
      }
    },
  }
}
