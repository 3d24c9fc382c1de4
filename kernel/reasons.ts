// Why an extension is not on: one sentence with the name, the range wanted and what was found.
import semver from 'semver'
import { type Found, needsOf } from './discover.ts'
import type { Ledger } from './ledger.ts'
import { type Rights, undecided } from './permissions.ts'
import type { Services } from './services.ts'
import type { Unit } from './unit.ts'

/** Failed starts in a row after which an installed extension is not started again by itself. */
const quarantineAfter = 3

/** Why a unit may not run whatever the others do, with the state that makes of it; undefined: it may. */
export function inability(unit: Unit, ledger: Ledger): [Unit['state'], string] | undefined {
  const { id, manifest, problem, builtin } = unit.found
  const failures = ledger.failuresOf(id)
  if (!manifest || problem) return ['failed', problem ?? 'has no manifest']
  if (!manifest.platforms.some(platform => platform === process.platform)) {
    return ['off', `runs on ${manifest.platforms.join(' and ')} only; this is ${process.platform}`]
  }
  if (!builtin && manifest.realm === 'kernel' && !ledger.isTrusted(id)) {
    const remedy = `add "${id}" to "trusted" in extensions.json`
    return ['failed', `wants the kernel realm, but is not trusted: ${remedy}`]
  }
  const quarantine = ledger.quarantineOf(id)
  if (quarantine !== undefined) return ['quarantined', quarantine]
  if (failures >= quarantineAfter) {
    const last = unit.failure === undefined ? '' : `, the last one: ${unit.failure}`
    return ['quarantined', `failed ${failures} starts in a row${last}; switch it on to try again`]
  }
  return unit.failure === undefined ? undefined : ['failed', unit.failure]
}

/** Who goes first of those that provide one service: the first in order, so that chance never chooses. */
function rival(unit: Unit, all: readonly Unit[]): Unit | undefined {
  const services = Object.keys(unit.found.manifest?.provides ?? {})
  const isBusy = all.some(({ state }) => state === 'starting')
  return all.find((other, i) => {
    const mayCome = isBusy && other.state === 'waiting' && i < all.indexOf(unit)
    if (other === unit || (other.state !== 'starting' && !mayCome)) return false
    return services.some(id => other.found.manifest?.provides[id] !== undefined)
  })
}

/** What a unit waits for; undefined: nothing. */
export function missing(
  unit: Unit,
  all: readonly Unit[],
  { ledger, services }: { ledger: Ledger; services: Services },
): string | undefined {
  const open = undecided(unit.found, ledger)
  if (open !== undefined) return open
  if (unit.state !== 'on') {
    const taken = Object.keys(unit.found.manifest?.provides ?? {})
      .map(id => services.find(id))
      .find(Boolean)
    if (taken)
      return `provides service ${taken.id}, which ${taken.owner} provides already; switch one of the two off`
    const first = rival(unit, all)
    if (first) return `provides what ${first.found.id} provides too, which goes first`
  }
  for (const [id, range] of Object.entries(unit.found.manifest ? needsOf(unit.found.manifest) : {})) {
    const need = `needs service ${id} ${range}`
    const offer = services.find(id)
    if (offer && semver.satisfies(offer.version, range)) continue
    if (offer) return `${need}, but ${offer.owner} provides ${offer.version}`
    const declaring = all.filter(({ found }) => found.manifest?.provides[id] !== undefined)
    const other = declaring.find(({ isEnabled }) => isEnabled) ?? declaring[0]
    if (!other) return `${need}, which nobody provides`
    const version = other.found.manifest!.provides[id]!
    if (!semver.satisfies(version, range)) return `${need}, but ${other.found.id} provides ${version}`
    const state = {
      on: 'is on, but does not offer it now',
      waiting: 'is waiting itself',
      starting: 'is starting',
      stopping: 'is stopping',
      off: other.why ?? 'is off',
      failed: `has failed: ${other.why}`,
      quarantined: `is quarantined: ${other.why}`,
    }[other.state]
    return `${need} of ${other.found.id}, which ${state}`
  }
  return undefined
}

/** Brings states and reasons of all that are neither on nor on the way in line; the reasons name the states of others. */
export function explainIdle(
  all: readonly Unit[],
  { ledger, services, isStopping }: { ledger: Ledger; services: Services; isStopping: boolean },
): void {
  const idle = all.filter(({ state }) => !['on', 'starting', 'stopping'].includes(state))
  for (const unit of idle) {
    const unable = unit.isEnabled ? inability(unit, ledger) : (['off', 'is switched off'] as const)
    ;[unit.state, unit.why] = unable ?? (isStopping ? ['off', 'the host is stopping'] : ['waiting', null])
  }
  for (const unit of idle)
    if (unit.state === 'waiting') unit.why = missing(unit, all, { ledger, services }) ?? 'is about to start'
}

/** Those who have a say at a hook point, or had one, and are not on though they are wanted; each with its state. */
export const absentFrom = (
  point: string,
  had: ReadonlySet<string>,
  all: readonly Unit[],
  rightsOf: (found: Found) => Rights,
): [id: string, state: string][] =>
  all.flatMap(({ found, isEnabled, state, why }) => {
    // A reason to be off is somebody's will, or the platform.
    if (!isEnabled || state === 'on' || (state === 'off' && why !== null)) return []
    const needed = `hooks:${point}`
    const hasSay = found.manifest?.permissions.includes(needed) && rightsOf(found).has(needed)
    return hasSay || had.has(found.id) ? [[found.id, why === null ? state : `${state}: ${why}`]] : []
  })
