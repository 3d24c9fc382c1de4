// The isolate realm: keeps the sandbox processes that isolates share, and sees to it that whoever breaks one breaks it for
// nobody else.
import type { Log } from 'svc-host/sdk'
import { type Cell, createCell } from './cell.ts'
import { collect } from './modules.ts'
import type { Ending } from './policy.ts'
import { createPump } from './pump.ts'
import type { Place } from './realms.ts'
import { type Sandbox, type StartProcess, startSandbox } from './sandbox.ts'

/** Heap of one extension. */
const memoryMb = 64
/** How long a shared process is kept for the next one. */
const idleMs = 30_000

interface Tenant {
  readonly owner: string
  readonly cell: Cell
}

export interface IsolatesOptions {
  readonly start: StartProcess
  readonly log: Log
  /** Whether this one must have a process of its own. */
  isAlone(owner: string): boolean
  ended(owner: string, ending: Ending, why: string): void
}

export function createIsolates(options: IsolatesOptions): Place {
  const { log, ended } = options
  const tenants = new Map<number, Tenant>()
  let shared: Promise<Sandbox> | undefined
  let lastCell = 0

  /** Starts a process; at its end everybody in it is told, and the one whose code was running is held to account. */
  const open = async (label: string, members: Set<number>): Promise<Sandbox> => {
    const sandbox = await startSandbox(options.start, label, log)
    void sandbox.ended.then(({ why, culprit }) => {
      const lost = [...members].flatMap(number => {
        const tenant = tenants.get(number)
        tenants.delete(number)
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
        ended(owner, isCulprit ? 'process' : 'neighbour', reason)
      }
    })
    return sandbox
  }

  const membersOf = new WeakMap<Sandbox, Set<number>>()
  const pick = async (owner: string): Promise<Sandbox> => {
    const isAlone = options.isAlone(owner)
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
    tenants.delete(number)
    setTimeout(() => members.size === 0 && sandbox.end('nobody is in it any more'), idleMs).unref()
  }

  return async ({ id: owner, mainFile }, { report, isSlow, lost }) => {
    const modules = { memoryMb, ...(await collect(mainFile!)) }
    const sandbox = await pick(owner)
    lastCell += 1
    const number = lastCell
    const told = {
      report,
      isSlow,
      lost(why: string, isStarved?: boolean): void {
        release(sandbox, number)
        lost(why, isStarved)
      },
    }
    const cell = createCell('isolate', told, hands => createPump(sandbox, number, modules, hands))
    membersOf.get(sandbox)!.add(number)
    tenants.set(number, { owner, cell })
    const close = async (): Promise<void> => {
      await cell.close()
      release(sandbox, number)
    }
    return { label: 'isolate', cell: { ...cell, close } }
  }
}
