// The realms beside the host's own process: turns a stranger's package into an extension of the kernel whose every call
// crosses a bridge, and starts it again by policy, wherever it runs.
import type { Extension, ExtensionRecord, Log } from 'svc-host/sdk'
import { z } from 'zod'
import type { Found } from '../discover.ts'
import { messageOf } from '../errors.ts'
import type { Rights } from '../permissions.ts'
import type { Effects } from '../scope.ts'
import type { Services } from '../services.ts'
import { type Budgets, defaultBudgets, type Sample, watchBudgets } from './budgets.ts'
import type { Cell, CellOptions, Serve } from './cell.ts'
import { createFlow } from './flow.ts'
import { createIsolates } from './isolates.ts'
import { type Ending, type History, judge } from './policy.ts'
import { createProcesses } from './processes.ts'
import type { StartProcess } from './sandbox.ts'
import { revive } from './schemas.ts'
import { methodsOf } from './services.ts'
import { partOf } from './share.ts'
import type { Clock } from './timers.ts'
import { createServe } from './verbs.ts'

const mistakesPerSecond = 10

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
  logOf(owner: string): Log
  /** Whether the operator trusts it by name. */
  isTrusted(id: string): boolean
  readonly services: Services
  rightsOf(found: Found): Rights
  /** For the timers of extensions here. */
  readonly clock?: Clock | undefined
  readonly budgets?: Budgets | undefined
  /** Aborted when the host stops. */
  readonly signal: AbortSignal
  /** What one has done wrong since the start of the host. */
  mistakesOf(owner: string): Pick<Sample, 'errors' | 'lateTaps'>
  report(owner: string, during: string, error: unknown): void
  /** Stops an extension for this reason; without one it may start again. */
  blame(owner: string, why?: string): Promise<void>
  /** It does not start again by itself, in later runs of the host either. */
  quarantine(owner: string, why: string): Promise<void>
}

/** Whether this extension runs behind a bridge. */
export const isApart = ({ manifest }: Found): boolean => manifest !== undefined && manifest.realm !== 'kernel'

/** What one extension has used since the start of the host; null: it cannot be told apart. */
type Usage = Pick<ExtensionRecord, 'restarts' | 'cpu_ms' | 'memory_bytes' | 'budget'>

export interface Realms {
  /** Loads a package where its manifest says; it leaves with `effects`. */
  load(found: Found, effects: Effects): Promise<Extension>
  usageOf(owner: string): Usage
}

/** Finds a place for an extension, and says what to call it in the list of its effects. */
export type Place = (found: Found, told: CellOptions) => Promise<{ cell: Cell; label: string }>

export function createRealms(options: RealmsOptions): Realms {
  const { log, services, report } = options
  const histories = new Map<string, History>()
  const running = new Map<string, { cell: Cell; isProcess: boolean }>()
  const spentMs = new Map<string, number>()

  const historyOf = (owner: string): History => {
    const history = histories.get(owner) ?? { isAlone: false, endings: [], restarts: 0 }
    histories.set(owner, history)
    return history
  }
  /** One that is off may have been loaded for a look only, with a cell beside that of its start. */
  const leave = (owner: string, cell?: Cell): void => {
    const left = running.get(owner)
    if (cell && left?.cell !== cell) return
    running.delete(owner)
    if (left) spentMs.set(owner, (spentMs.get(owner) ?? 0) + left.cell.cpuMs())
  }

  const punish = async (owner: string, ending: Ending, why: string): Promise<void> => {
    leave(owner)
    const what = `its ${ending === 'child' ? 'process' : 'isolate'}`
    const verdict = judge(historyOf(owner), ending, why, Date.now(), Math.random())
    if (ending !== 'neighbour' && ending !== 'starved') report(owner, what, new Error(why))
    if ('quarantine' in verdict) await options.quarantine(owner, verdict.quarantine)
    await options.blame(owner, `${what} has ended: ${why}`)
    if (!('againInMs' in verdict)) return
    await new Promise(done => setTimeout(done, verdict.againInMs).unref())
    await options.blame(owner)
  }
  const ended = (owner: string, ending: Ending, why: string): void =>
    void punish(owner, ending, why).catch(error => log.error(messageOf(error)))

  const isSlow = watchBudgets({
    budgets: options.budgets ?? defaultBudgets,
    signal: options.signal,
    look: () =>
      [...running].map(([owner, { cell, isProcess }]) => {
        const cpuMs = cell.cpuMs() + (spentMs.get(owner) ?? 0)
        // A process may have a processor to itself; slowed down is what it says to the host.
        const mostCpu = isProcess ? 1 : partOf(isSlow(owner))
        const used = { cpuMs, memoryBytes: cell.memoryBytes(), mostCpu, mostBytes: cell.memoryLimitBytes }
        return [owner, { ...options.mistakesOf(owner), ...used }]
      }),
    slowed: (owner, why) =>
      options.logOf(owner).warn(`${why}; it is slowed down, and given up if it goes on`),
    giveUp(owner, why) {
      const sentence = `${why}, and it went on when it was slowed down; switch it on to try again`
      void options
        .quarantine(owner, sentence)
        .then(() => options.blame(owner, sentence))
        .catch(error => log.error(messageOf(error)))
    },
  })

  const isAlone = (owner: string): boolean => historyOf(owner).isAlone
  const isolates = createIsolates({ start: options.start, log, isAlone, ended })
  const processes = createProcesses(options)

  return {
    async load(found, effects) {
      const { id: owner } = found
      const isProcess = found.manifest?.realm === 'process'
      let definition: z.output<typeof Definition> | undefined
      let serve: Serve = verb => {
        throw new Error(`${verb} has to wait for the setup`)
      }
      let refused: unknown[] | undefined = []
      const mayReport = createFlow(mistakesPerSecond, count =>
        report(owner, 'its mistakes', new Error(`${count} more within a second`)),
      )
      const { cell, label } = await (isProcess ? processes : isolates)(found, {
        report(during, error) {
          if (refused) refused.push(error)
          else if (mayReport()) report(owner, during, error)
        },
        isSlow: () => isSlow(owner),
        lost: (why, isStarved) => ended(owner, isProcess ? 'child' : isStarved ? 'starved' : 'isolate', why),
      })
      running.set(owner, { cell, isProcess })
      effects.add(label, async () => {
        await cell.close()
        leave(owner, cell)
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
      const cell = running.get(owner)?.cell
      const spent = spentMs.get(owner)
      return {
        restarts: histories.get(owner)?.restarts ?? 0,
        cpu_ms: cell || spent !== undefined ? (cell?.cpuMs() ?? 0) + (spent ?? 0) : null,
        memory_bytes: cell ? cell.memoryBytes() : null,
        budget: cell ? (isSlow(owner) ? 'slowed' : 'ok') : null,
      }
    },
  }
}
