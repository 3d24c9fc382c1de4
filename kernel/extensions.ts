// The life of extensions: one serialized reconcile brings what runs in line with what is wanted and possible.
import semver from 'semver'
import { type ExtensionRecord, type Extensions, HttpError, type Log } from 'svc-host/sdk'
import type { Reach } from './context.ts'
import type { Found } from './discover.ts'
import { type Faults, messageOf } from './errors.ts'
import { ExtensionsChanged } from './events.ts'
import type { Front } from './http.ts'
import type { Ledger } from './ledger.ts'
import type { Offer } from './services.ts'
import type { Override } from './settings.ts'
import { setUp, tearDown, type Unit } from './unit.ts'

/** Failed starts in a row after which an installed extension is not started again by itself. */
const quarantineAfter = 3

/** Owner of what the kernel itself registers; always on. */
export const kernelOwner = 'kernel'

export interface Life extends Extensions {
  /** Brings everything in line; resolves when nothing more can be done. */
  reconcile(): Promise<void>
  isOn(owner: string): boolean
  changed(owner: string): void
  leaving(offer: Offer): Promise<void>
  /** Stops all, dependants first; nothing starts again. */
  stop(): Promise<void>
}

export interface LifeOptions {
  readonly found: readonly Found[]
  readonly overrides: ReadonlyMap<string, readonly Override[]>
  readonly ledger: Ledger
  readonly faults: Faults
  readonly logOf: (owner: string) => Log
  readonly front: Pick<Front, 'publish' | 'drain'>
  /** Called late: the reach itself holds parts of this life. */
  readonly reach: () => Reach
}

export function createLife({ found, overrides, ledger, faults, logOf, front, reach }: LifeOptions): Life {
  const units = new Map<string, Unit>()
  for (const each of found) {
    units.set(each.id, {
      found: each,
      log: logOf(each.id),
      overrides: overrides.get(each.id) ?? [],
      isEnabled: !ledger.isDisabled(each.id),
      state: 'off',
      why: null,
      providers: new Set(),
    })
  }
  const all = [...units.values()]
  const announced = new Map<string, string>()
  let isStopping = false
  let isDirty = true

  const isOn = (owner: string): boolean => owner === kernelOwner || units.get(owner)?.state === 'on'

  /** Why a unit may not run whatever the others do; undefined: it may. */
  const unable = ({
    found: { id, manifest, problem, builtin },
    failure,
  }: Unit): [Unit['state'], string] | undefined => {
    if (!manifest || problem) return ['failed', problem ?? 'has no manifest']
    if (!manifest.platforms.includes(process.platform as 'linux')) {
      return ['off', `runs on ${manifest.platforms.join(' and ')} only; this is ${process.platform}`]
    }
    if (!builtin && manifest.realm === 'kernel' && !ledger.isTrusted(id)) {
      return [
        'failed',
        `wants the kernel realm, but is not trusted: add "${id}" to "trusted" in extensions.json`,
      ]
    }
    if (failure !== undefined && ledger.failuresOf(id) >= quarantineAfter) {
      return [
        'quarantined',
        `failed ${ledger.failuresOf(id)} starts in a row, the last one: ${failure}; switch it on to try again`,
      ]
    }
    if (!failure && ledger.failuresOf(id) >= quarantineAfter) {
      return ['quarantined', `failed ${ledger.failuresOf(id)} starts in a row; switch it on to try again`]
    }
    return failure === undefined ? undefined : ['failed', failure]
  }

  /** What a unit waits for, one sentence; undefined: nothing. */
  const missing = (unit: Unit): string | undefined => {
    for (const [id, range] of Object.entries(unit.found.manifest?.requires ?? {})) {
      const need = `needs service ${id} ${range}`
      const offer = reach().services.find(id)
      if (offer && semver.satisfies(offer.version, range)) continue
      if (offer) return `${need}, but ${offer.owner} provides ${offer.version}`
      const declaring = all.filter(other => other.found.manifest?.provides[id] !== undefined)
      const other = declaring.find(({ isEnabled }) => isEnabled) ?? declaring[0]
      if (!other) return `${need}, which nobody provides`
      const version = other.found.manifest!.provides[id]!
      if (!semver.satisfies(version, range)) return `${need}, but ${other.found.id} provides ${version}`
      const state = other.state === 'on' ? 'on, but does not offer it now' : other.state
      return `${need} of ${other.found.id}, which is ${state}${other.why ? `: ${other.why}` : ''}`
    }
    return undefined
  }

  const isWanted = (unit: Unit): boolean => !isStopping && unit.isEnabled && unable(unit) === undefined

  const publish = async (): Promise<boolean> => {
    if (!isDirty) return true
    isDirty = false
    const live = [...reach().routes].filter(({ owner, scope }) => isOn(owner) && !scope.hidden)
    const leftOut = await front.publish(live)
    for (const { owner, error } of leftOut) {
      const unit = units.get(owner)
      if (!unit) throw error
      faults.report(owner, 'publishing its routes', error)
      unit.failure = messageOf(error)
    }
    return leftOut.length === 0
  }

  /** Those that hold a service of one that leaves, and those that hold theirs, and so on. */
  const withDependants = (first: readonly Unit[]): Set<Unit> => {
    const leaving = new Set(first)
    for (const unit of leaving) {
      for (const other of all) if (other.effects && other.providers.has(unit.found.id)) leaving.add(other)
    }
    return leaving
  }

  const stopOne = (unit: Unit, leaving: ReadonlySet<Unit>): Promise<void> => {
    unit.stopping ??= (async () => {
      await unit.starting
      const dependants = [...leaving].filter(other => other !== unit && other.providers.has(unit.found.id))
      await Promise.all(dependants.map(other => stopOne(other, leaving)))
      await reach().services.closeUses(offer => offer.owner === unit.found.id)
      await tearDown(unit, front.drain)
      unit.state = 'off'
    })().finally(() => {
      unit.stopping = undefined
    })
    return unit.stopping
  }

  const stopAll = async (first: readonly Unit[]): Promise<void> => {
    const leaving = withDependants(first)
    if (leaving.size === 0) return
    for (const unit of leaving) {
      if (unit.state === 'on') unit.state = 'stopping'
      unit.effects?.hide()
      reach().services.hideUsesOf(unit.found.id)
    }
    isDirty = true
    await publish()
    await Promise.all([...leaving].map(unit => stopOne(unit, leaving)))
  }

  const startOne = (unit: Unit): Promise<void> => {
    unit.state = 'starting'
    unit.why = null
    const { id, builtin } = unit.found
    unit.starting = setUp(unit, reach()).then(
      async () => {
        unit.state = 'on'
        isDirty = true
        if (!builtin) await ledger.countFailure(id, false)
      },
      async error => {
        unit.failure = messageOf(error)
        unit.state = 'failed'
        if (!builtin) await ledger.countFailure(id, true)
      },
    )
    return unit.starting
  }

  /** Starts each as soon as what it requires is there; true when any was started. */
  const startAll = async (): Promise<boolean> => {
    const running = new Map<Unit, Promise<void>>()
    let any = false
    for (;;) {
      for (const unit of all) {
        const isIdle = ['off', 'waiting', 'failed', 'quarantined'].includes(unit.state) && !unit.stopping
        if (!isIdle || running.has(unit) || !isWanted(unit) || missing(unit) !== undefined) continue
        any = true
        running.set(
          unit,
          startOne(unit).finally(() => running.delete(unit)),
        )
      }
      if (running.size === 0) return any
      await Promise.race(running.values())
    }
  }

  const explain = (): void => {
    for (const unit of all) {
      if (unit.state === 'on' || unit.state === 'starting' || unit.state === 'stopping') {
        unit.why = null
        continue
      }
      const inability = unit.isEnabled ? unable(unit) : undefined
      if (!unit.isEnabled) [unit.state, unit.why] = ['off', 'is switched off']
      else if (inability) [unit.state, unit.why] = inability
      else if (isStopping) [unit.state, unit.why] = ['off', 'the host is stopping']
      else [unit.state, unit.why] = ['waiting', missing(unit) ?? 'is about to start']
    }
  }

  const announce = (): void => {
    for (const {
      found: { id },
      state,
      why,
      log,
    } of all) {
      if (announced.get(id) === state) continue
      if (announced.has(id) || state !== 'off') reach().bus.emit(ExtensionsChanged, { id, state })
      announced.set(id, state)
      const say = state === 'failed' || state === 'quarantined' ? log.error : log.info
      say(why === null ? state : `${state}: ${why}`)
    }
  }

  const pass = async (): Promise<void> => {
    for (;;) {
      explain()
      await stopAll(
        all.filter(unit => unit.state === 'on' && (!isWanted(unit) || missing(unit) !== undefined)),
      )
      explain()
      let isMoving = await startAll()
      isMoving = (await reach().services.settle()) || isMoving
      if ((await publish()) && !isMoving) break
    }
    explain()
    announce()
  }

  let tail: Promise<void> = Promise.resolve()
  let queued: Promise<void> | undefined
  /** One pass at a time; calls before it begins share it. */
  const reconcile = (): Promise<void> => {
    if (!queued) {
      queued = tail.then(() => {
        queued = undefined
        return pass()
      })
      tail = queued.catch(() => {})
    }
    return queued
  }

  const changed = (owner: string): void => {
    isDirty = true
    if (isOn(owner) && !isStopping) void reconcile()
  }

  const recordOf = (unit: Unit): ExtensionRecord => {
    const { id, manifest, builtin } = unit.found
    const named = (services: Readonly<Record<string, string>> = {}): string[] =>
      Object.entries(services).map(([name, range]) => `${name}@${range}`)
    return {
      id,
      title: manifest?.title ?? id,
      version: manifest?.version ?? '0.0.0',
      realm: manifest?.realm ?? 'kernel',
      builtin,
      enabled: unit.isEnabled,
      state: unit.state,
      why: unit.why,
      provides: named(manifest?.provides),
      requires: named(manifest?.requires),
      effects: unit.effects?.labels() ?? [],
      errors: faults.count(id),
    }
  }

  return {
    isOn,
    reconcile,
    list: () => all.map(recordOf),
    changed,
    async leaving(offer) {
      await reach().services.closeUses(each => each === offer)
      const holders = all.filter(unit => unit.state === 'on' && unit.providers.has(offer.owner))
      const cut = holders.filter(({ found: { manifest } }) => manifest!.requires[offer.id] !== undefined)
      if (isOn(offer.owner)) await stopAll(cut)
      changed(offer.owner)
    },
    async enable(id, enabled) {
      const unit = units.get(id)
      if (!unit) throw new HttpError(404, `there is no extension "${id}"`)
      if (isStopping) throw new HttpError(409, 'the host is stopping; nothing can be switched now')
      await ledger.setEnabled(id, enabled)
      unit.isEnabled = enabled
      unit.failure = undefined
      await reconcile()
      return recordOf(unit)
    },
    async stop() {
      isStopping = true
      for (const { state, effects } of all) if (state === 'starting') effects?.abort()
      await reconcile()
    },
  }
}
