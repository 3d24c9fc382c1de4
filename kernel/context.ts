// The context of one extension: each verb as one labelled effect of its scope.
import { join } from 'node:path'
import type { Context, Extension, ExtensionRecord, Log, Route, Scope } from 'svc-host/sdk'
import type { Call } from './calls.ts'
import type { Found, Manifest, UndoKinds } from './discover.ts'
import { openDocument } from './documents.ts'
import { makeDurable } from './durable.ts'
import { runAs, within } from './errors.ts'
import type { Bus } from './events.ts'
import { makeFolder } from './folder.ts'
import type { Hooks } from './hooks.ts'
import type { OwnedRoute } from './http.ts'
import type { Journal, Kept } from './journal.ts'
import type { Rights } from './permissions.ts'
import { startProcess } from './process.ts'
import { createExec } from './realms/exec.ts'
import { createFiles } from './realms/files.ts'
import type { Effects } from './scope.ts'
import type { Offer, Services, Use } from './services.ts'
import { openStorage } from './storage.ts'

/** A setup, of an extension or on an optional service, that takes longer has failed. */
export const setupLimitMs = 30_000

/** A route that is registered; live while its owner is on and its scope is not leaving. */
export interface Registered extends OwnedRoute {
  readonly scope: Effects
}

/** What a main module gives, wherever it was loaded. */
export interface Loaded extends Extension {
  /** JSON Schema of its config as its author wrote it, where `config` cannot tell all of it. */
  readonly configSchema?: object
}

/** What the verbs reach. */
export interface Reach {
  readonly configDir: string
  readonly services: Services
  readonly bus: Bus
  readonly hooks: Hooks
  readonly journal: Journal
  readonly routes: Set<Registered>
  report(owner: string, during: string, error: unknown): void
  /** Something was registered or has gone that others may wait for, or that must be published. */
  changed(owner: string): void
  /** Stops whoever requires this service, before it goes. */
  leaving(offer: Offer): Promise<void>
  /** Loads an extension into its realm; what that takes leaves with `effects`. */
  load(found: Found, effects: Effects): Promise<Loaded>
  readonly call: Call
  rightsOf(owner: string): Rights
  /** What it has used, as far as its realm can tell. */
  usageOf(owner: string): Pick<ExtensionRecord, 'restarts' | 'cpu_ms' | 'memory_bytes' | 'budget'>
}

export interface Subject {
  readonly manifest: Manifest
  readonly builtin: boolean
  readonly config: unknown
  readonly log: Log
  readonly undo: { kinds: UndoKinds; undoFile?: string; installed?: Kept['installed'] }
  readonly effects: Effects
}

/** Declared versions are what dependants were promised; anything else in code is a mistake to name. */
function checkDeclared(manifest: Manifest, verb: 'provides' | 'uses', id: string, version?: string): string {
  const declared =
    verb === 'provides' ? manifest.provides[id] : (manifest.optional[id] ?? manifest.requires[id])
  if (declared === undefined) {
    const list = verb === 'provides' ? 'provides' : 'optional'
    throw new Error(`${verb} service ${id}, which "${list}" in extension.json does not name`)
  }
  if (version !== undefined && declared !== version) {
    throw new Error(`provides service ${id} ${version}, but extension.json says ${declared}; make them equal`)
  }
  return declared
}

/** The verbs of a scope; nested ones are made of the same. */
function createVerbs(subject: Subject, effects: Effects, reach: Reach): Scope {
  const { manifest, log } = subject
  const owner = manifest.id

  const addRoute = (route: Route): void => {
    const entry: Registered = { owner, route, signal: effects.signal, scope: effects }
    effects.register(`route ${route.method} ${route.path}`, () => {
      reach.routes.add(entry)
      reach.changed(owner)
      return () => {
        reach.routes.delete(entry)
        reach.changed(owner)
      }
    })
  }

  return {
    signal: effects.signal,
    effect: (label, start) => effects.run(label, start),
    scope(label) {
      const inner = effects.child(label)
      return { ...createVerbs(subject, inner, reach), close: () => inner.close() }
    },
    provide(token, service) {
      checkDeclared(manifest, 'provides', token.id, token.version)
      effects.register(`provide ${token.id}@${token.version}`, () => {
        const offer = reach.services.offer(owner, token, service)
        reach.changed(owner)
        return async () => {
          reach.services.withdraw(offer)
          await reach.leaving(offer)
        }
      })
    },
    using(token, start) {
      const { id } = token
      const range = checkDeclared(manifest, 'uses', id)
      const open: Use['open'] = service => {
        const inner = effects.child(`using ${id}`)
        const started = runAs(owner, async () => start(service as never, createVerbs(subject, inner, reach)))
        const ready = within(setupLimitMs, started).catch(async error => {
          if (!inner.signal.aborted) reach.report(owner, `setup on ${id}`, error)
          await inner.close()
        })
        return { ready, hide: () => inner.hide(), close: () => inner.close() }
      }
      effects.register(`wait for ${id}`, () => reach.services.use({ owner, id, range, open }))
      reach.changed(owner)
    },
    route: (...routes) => routes.forEach(addRoute),
    on(kind, listener) {
      effects.register(`on ${kind.kind}`, () => reach.bus.on(owner, kind.kind, listener as never))
    },
    tap(point, fn, { order = 0 } = {}) {
      effects.register(`tap ${point.id}`, () => reach.hooks.tap(owner, point as never, fn as never, order))
    },
    async durable(kind, record, change) {
      const { kinds, ...where } = subject.undo
      const how = kinds[kind]
      if (!how) throw new Error(`the undo module of ${owner} has no kind "${kind}"; add it there`)
      const undo = (kept: object) => how.undo(kept)
      const label = `durable ${kind}`
      return makeDurable(effects, reach.journal, { label, kind, record, ...where, undo, change })
    },
    process: (label, spec) => startProcess(effects, { ...reach, log }, label, spec),
    folder: (label, options) => makeFolder(effects, reach.journal, label, options),
  }
}

export function createContext(subject: Subject, reach: Reach): Context {
  const { manifest, builtin, config, log, effects } = subject
  // A stranger's files lie together, so that they can go with it.
  const documents = builtin ? reach.configDir : join(reach.configDir, 'plugin-state', manifest.id)
  const verbs = createVerbs(subject, effects, reach)
  const rights = reach.rightsOf(manifest.id)
  return {
    ...verbs,
    files: createFiles({ id: manifest.id, configDir: reach.configDir, rights }),
    exec: createExec(verbs.process, rights.check),
    id: manifest.id,
    version: manifest.version,
    config,
    log,
    emit: (kind, payload) => void reach.bus.emit(kind, payload),
    hookPoint(point) {
      const { call, release } = reach.hooks.own(manifest.id, point as never)
      effects.add(`hook point ${point.id}`, release)
      return call as never
    },
    document(name, schema) {
      if (!/^[a-z0-9][a-z0-9._-]*$/i.test(name)) {
        throw new Error(`document "${name}": a name may hold letters, digits, dot, dash and underscore only`)
      }
      return openDocument(join(documents, name), schema, message => log.warn(message))
    },
    api: (method, path, body) =>
      reach.call(manifest.id, effects.signal, method, path, body) as Promise<never>,
    storage: openStorage(reach.configDir, manifest.id, message => log.warn(message)),
  }
}
