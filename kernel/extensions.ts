// The life of extensions: one serialized reconcile brings what runs in line with what is wanted and possible.
import { setTimeout as delay } from 'node:timers/promises'
import { type ExtensionRecord, type Extensions, ExtensionsChanged, HttpError } from 'svc-host/sdk'
import { hasNewConfig } from './config.ts'
import type { Reach } from './context.ts'
import { needsOf } from './discover.ts'
import { type Faults, messageOf } from './errors.ts'
import { examine } from './examine.ts'
import type { Front } from './http.ts'
import type { Ledger } from './ledger.ts'
import { listDecided } from './permissions.ts'
import { explainIdle, inability, missing } from './reasons.ts'
import type { Roster } from './roster.ts'
import type { Offer } from './services.ts'
import { createTurns } from './turns.ts'
import { describe, setUp, tearDown, type Unit, withDependants } from './unit.ts'

/** Owner of what the kernel itself registers; always on. */
export const kernelOwner = 'kernel'

/** How long the routes of those that are on wait for those that start beside them. */
const patienceMs = 500

export interface Life extends Omit<Extensions, 'config' | 'configure' | 'permit' | 'decided' | 'decide'> {
  /** Brings everything in line; resolves when nothing more can be done. */
  reconcile(): Promise<void>
  isOn(owner: string): boolean
  /** Stops one for a reason from outside; without a reason it may start again. */
  blame(id: string, why?: string): Promise<void>
  /** Stops all, dependants first; nothing starts again. */
  stop(): Promise<void>
}

/** What the verbs reach, except for this life's own part in it; and what the life itself works with. */
export interface LifeOptions extends Omit<Reach, 'report' | 'changed' | 'leaving'> {
  readonly roster: Roster
  readonly ledger: Ledger
  readonly faults: Faults
  readonly front: Pick<Front, 'publish' | 'drain'>
}

export function createLife({ roster, ledger, faults, front, ...parts }: LifeOptions): Life {
  const { services, bus, journal, routes } = parts
  const { all } = roster
  const announced = new Map<string, { state: string; order: number }>()
  let isStopping = false
  let isDirty = true
  let starts = 0

  const isOn = (owner: string): boolean => owner === kernelOwner || roster.get(owner)?.state === 'on'

  const waitsFor = (unit: Unit): string | undefined => missing(unit, all, { ledger, services })
  const isWanted = (unit: Unit): boolean =>
    !isStopping && unit.isEnabled && inability(unit, ledger) === undefined

  const publish = async (): Promise<boolean> => {
    if (!isDirty) return true
    isDirty = false
    const live = [...routes].filter(({ owner, scope }) => isOn(owner) && !scope.hidden)
    // Of two that claim one path, the one that has been on for longer keeps it.
    live.sort((a, b) => (roster.get(a.owner)?.order ?? 0) - (roster.get(b.owner)?.order ?? 0))
    const leftOut = await front.publish(live)
    for (const error of leftOut) {
      const unit = roster.get(error.extension)
      if (!unit) throw error
      faults.report(error.extension, error.during, error)
      unit.failure = error.message
    }
    return leftOut.length === 0
  }

  const stopOne = (unit: Unit, leaving: ReadonlySet<Unit>): Promise<void> => {
    unit.stopping ??= (async () => {
      await unit.starting
      const dependants = [...leaving].filter(other => other !== unit && other.providers.has(unit.found.id))
      await Promise.all(dependants.map(other => stopOne(other, leaving)))
      await services.closeUses(offer => offer.owner === unit.found.id)
      await tearDown(unit, front.drain)
      unit.state = 'off'
    })().finally(() => {
      unit.stopping = undefined
    })
    return unit.stopping
  }

  const stopAll = async (first: readonly Unit[]): Promise<void> => {
    const leaving = withDependants(first, all)
    if (leaving.size === 0) return
    for (const unit of leaving) {
      if (unit.state === 'on') unit.state = 'stopping'
      unit.effects?.hide()
      services.hideUsesOf(unit.found.id)
    }
    isDirty = true
    await publish()
    await Promise.all([...leaving].map(unit => stopOne(unit, leaving)))
  }

  const startOne = async (unit: Unit): Promise<void> => {
    unit.state = 'starting'
    unit.why = null
    unit.order = starts += 1
    unit.starting = setUp(unit, reach)
      .then(() => undefined, messageOf)
      .then(failure => {
        unit.failure = failure
        unit.state = failure === undefined ? 'on' : 'failed'
        isDirty = true
      })
    await unit.starting
    // A start that was cut short says nothing about the extension.
    if (unit.found.builtin || !unit.isEnabled || isStopping) return
    await ledger.countFailure(unit.found.id, unit.failure !== undefined)
  }

  /** Starts each as soon as what it requires is there; true when any was started. */
  const startAll = async (): Promise<boolean> => {
    const running = new Map<Unit, Promise<void>>()
    let any = false
    for (;;) {
      for (const unit of all) {
        const isIdle = ['off', 'waiting', 'failed', 'quarantined'].includes(unit.state) && !unit.stopping
        if (!isIdle || running.has(unit) || !isWanted(unit) || waitsFor(unit) !== undefined) continue
        any = true
        const done = startOne(unit).finally(() => running.delete(unit))
        running.set(unit, done)
      }
      if (running.size === 0) return any
      // Whoever hangs in its setup does not keep what the others serve away.
      const slow = new AbortController()
      await Promise.race([
        ...running.values(),
        delay(patienceMs, undefined, { signal: slow.signal }).then(publish),
      ])
      slow.abort()
    }
  }

  const explain = (): void => explainIdle(all, { ledger, services, isStopping })

  const announce = (): void => {
    for (const { found, state, why, log, order, again } of all) {
      const before = announced.get(found.id)
      if (before?.state === state && (state !== 'on' || before.order === order)) continue
      announced.set(found.id, { state, order })
      const isAgain = before?.state === state
      if (!isAgain && (before !== undefined || state !== 'off'))
        bus.emit(ExtensionsChanged, { id: found.id, state })
      const say =
        state === 'failed' || state === 'quarantined' ? log.error : isStopping ? log.debug : log.info
      const reason = isAgain ? (again ?? 'what it needs has started anew') : why
      say(`${state}${isAgain ? ' again' : ''}${reason === null ? '' : `: ${reason}`}`)
    }
  }

  /** Those that are found no more, or as another version, end before anything else is decided. */
  const look = async (): Promise<void> => {
    for (const id of await roster.renew(stopAll)) {
      announced.delete(id)
      bus.emit(ExtensionsChanged, { id, state: 'off' })
    }
  }

  const pass = async (): Promise<void> => {
    for (;;) {
      explain()
      const on = all.filter(({ state }) => state === 'on')
      await stopAll(on.filter(unit => unit.outdated || !isWanted(unit) || waitsFor(unit) !== undefined))
      explain()
      let isMoving = await startAll()
      isMoving = (await services.settle()) || isMoving
      if ((await publish()) && !isMoving) break
    }
    explain()
    announce()
  }

  const inTurn = createTurns()
  let queued: Promise<void> | undefined
  /** One pass at a time; calls before it begins share it. */
  const reconcile = (): Promise<void> => {
    queued ??= inTurn(() => {
      queued = undefined
      return pass()
    })
    return queued
  }

  const changed = (owner: string): void => {
    isDirty = true
    if (isOn(owner) && !isStopping) void reconcile()
  }

  /** Ends all that was opened on a service, and all that require it, before it goes. */
  const leaving = async (offer: Offer): Promise<void> => {
    await services.closeUses(each => each === offer)
    const holders = all.filter(unit => unit.state === 'on' && unit.providers.has(offer.owner))
    const cut = holders.filter(({ found: { manifest } }) => needsOf(manifest!)[offer.id] !== undefined)
    if (isOn(offer.owner)) await stopAll(cut)
    changed(offer.owner)
  }

  const reach: Reach = { ...parts, report: faults.report, changed, leaving }

  const recordOf = (unit: Unit): ExtensionRecord => {
    const { id } = unit.found
    const permissions = listDecided(unit.found, ledger)
    const counted = { errors: faults.count(id), taps: reach.hooks.taps(id), permissions }
    return describe(unit, { ...counted, ...reach.usageOf(id) })
  }

  return {
    isOn,
    reconcile,
    list: () => all.map(recordOf),
    async blame(id, why) {
      const unit = roster.get(id)
      await unit?.starting
      if (unit) unit.failure = why
      await reconcile()
    },
    async enable(id, enabled) {
      const unit = roster.get(id)
      if (!unit) throw new HttpError(404, `there is no extension "${id}"`)
      if (isStopping) throw new HttpError(409, 'the host is stopping; nothing can be switched now')
      const isOutdated = enabled && unit.state === 'on' && (await hasNewConfig(unit, parts.configDir))
      unit.outdated = isOutdated ? 'its config has changed' : undefined
      await ledger.setEnabled(id, enabled)
      unit.isEnabled = enabled
      unit.failure = undefined
      if (!enabled && unit.state === 'starting') unit.effects?.abort()
      await reconcile()
      return recordOf(unit)
    },
    async reload() {
      await inTurn(look)
      await reconcile()
      return all.map(recordOf)
    },
    examine,
    trust: ledger.setTrusted,
    forget: ledger.forget,
    owed: id => journal.live(id).length,
    async stop() {
      isStopping = true
      for (const { state, effects } of all) if (state === 'starting') effects?.abort()
      await reconcile()
    },
  }
}
