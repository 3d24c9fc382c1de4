// One extension in this host: its state, and how a single setup and a single end go.
import type { Extension, ExtensionRecord, Log, Token } from 'svc-host/sdk'
import { readConfig } from './config.ts'
import { createContext, type Loaded, type Reach, setupLimitMs } from './context.ts'
import { type Found, needsOf } from './discover.ts'
import { messageOf, runAs, within } from './errors.ts'
import { checkSeal } from './examine.ts'
import { createEffects, type Effects } from './scope.ts'
import type { Override } from './settings.ts'

/** How long its open answers get to end by themselves when an extension stops. */
const drainGraceMs = 2000

export interface Unit {
  readonly found: Found
  readonly log: Log
  readonly overrides: readonly Override[]
  isEnabled: boolean
  state: ExtensionRecord['state']
  /** A sentence for every state that is not `on`. */
  why: string | null
  /** Why its last start failed; it is not started again until it is switched on anew. */
  failure?: string
  /** Rises with each start; within one pass it follows the ids. */
  order: number
  /** The extensions that provide what it requires. */
  readonly providers: Set<string>
  /** What it was set up with. */
  config?: unknown
  /** What its main module gave at its last start. */
  definition?: Loaded
  /** What has changed since its start: it ends and starts anew in the next pass. */
  outdated?: string | undefined
  /** Why it started the last time, where it was on before. */
  again?: string | undefined
  effects?: Effects
  starting?: Promise<void>
  stopping?: Promise<void>
}

/** Checks that code and manifest name the same required services. */
function checkDeps(definition: Extension, unit: Unit): Record<string, string> {
  if (typeof definition?.setup !== 'function') {
    throw new Error('the main module has no default export made by defineExtension')
  }
  const wanted = Object.keys(unit.found.manifest!.requires)
  const deps = Object.entries<Token<unknown>>(definition.deps ?? {}).map(([name, t]) => [name, t.id] as const)
  for (const [name, id] of deps) {
    if (!wanted.includes(id))
      throw new Error(`deps.${name} is ${id}, which "requires" in extension.json does not name`)
  }
  const unused = wanted.filter(id => !deps.some(([, dep]) => dep === id))
  if (unused.length) throw new Error(`extension.json requires ${unused.join(', ')}, which deps does not name`)
  return Object.fromEntries(deps)
}

/** Loads and sets up; rejects after undoing everything when that fails. */
export async function setUp(unit: Unit, reach: Reach): Promise<void> {
  const { found, log } = unit
  const { id } = found
  const effects = createEffects(id, reach.report)
  unit.effects = effects
  const work = async (): Promise<void> => {
    if (found.seal !== undefined) await checkSeal(found.folder, found.seal)
    const definition = await reach.load(found, effects)
    const deps = checkDeps(definition, unit)
    const config = await readConfig(unit, definition, reach.configDir)
    Object.assign(unit, { definition, config, again: unit.outdated, outdated: undefined })
    const services: Record<string, unknown> = {}
    unit.providers.clear()
    for (const service of Object.keys(needsOf(found.manifest!))) {
      const offer = reach.services.find(service)
      if (!offer) throw new Error(`service ${service} has gone while it started`)
      unit.providers.add(offer.owner)
      for (const [name, wanted] of Object.entries(deps))
        if (wanted === service) services[name] = offer.service
    }
    const kinds = (await found.loadUndo?.()) ?? {}
    const { manifest, builtin, folder, undoFile, seal } = found
    const installed = builtin ? undefined : { folder, seal }
    const undo = undoFile === undefined ? { kinds } : { kinds, undoFile, installed }
    effects.refuse('setup')
    await definition.setup(
      createContext({ manifest: manifest!, builtin, config, log, undo, effects }, reach),
      services,
    )
  }
  const { signal } = effects
  const cut = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('it was stopped before it had started')))
  })
  try {
    await within(setupLimitMs, Promise.race([runAs(id, work), cut]))
  } catch (error) {
    if (!signal.aborted) reach.report(id, 'setup', error)
    await effects.close()
    unit.effects = undefined
    throw new Error(`setup failed: ${messageOf(error)}`, { cause: error })
  }
}

/** Its routes are off already: streams end, open answers drain, effects are undone, services go. */
export async function tearDown(
  unit: Unit,
  drain: (owner: string, graceMs: number) => Promise<void>,
): Promise<void> {
  unit.effects?.abort()
  await drain(unit.found.id, drainGraceMs)
  await unit.effects?.close()
  unit.effects = undefined
  unit.providers.clear()
}

/** These, those that hold a service of one of them, those that hold theirs, and so on. */
export function withDependants(first: readonly Unit[], all: readonly Unit[]): Set<Unit> {
  const leaving = new Set(first)
  for (const unit of leaving)
    for (const other of all) if (other.effects && other.providers.has(unit.found.id)) leaving.add(other)
  return leaving
}

/** The unit as the API shows it. */
export function describe(
  { found, isEnabled, state, why, effects }: Unit,
  counted: Pick<ExtensionRecord, 'errors' | 'taps' | 'permissions'> & ReturnType<Reach['usageOf']>,
): ExtensionRecord {
  const { id, manifest, builtin } = found
  const named = (services: Readonly<Record<string, string>> = {}): string[] =>
    Object.entries(services).map(([name, range]) => `${name}@${range}`)
  return {
    id,
    title: manifest?.title ?? id,
    version: manifest?.version ?? '0.0.0',
    realm: manifest?.realm ?? 'kernel',
    builtin,
    enabled: isEnabled,
    state,
    why,
    provides: named(manifest?.provides),
    requires: named(manifest?.requires),
    effects: effects?.labels() ?? [],
    ...counted,
  }
}
