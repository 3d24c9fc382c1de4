// Installing, updating, rolling back and removing while the host runs; whatever happens, the former state or the new one.
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { CatalogOffer, PluginCatalog } from 'svc-host/api/catalog'
import {
  type Examined,
  type ExtensionRecord,
  type Extensions,
  HttpError,
  type Log,
  type PermissionDecision,
} from 'svc-host/sdk'
import { admitted, asksOf, refuseUnless } from './admission.ts'
import { type Arrival, withArrival, withMark, withoutPackage, withRollback } from './change.ts'
import { AsksForMore, checkTexts, type Grant, granting, listed, undecided } from './consent.ts'
import { type Inspected, inspect } from './inspect.ts'
import type { Jobs, Progress } from './jobs.ts'
import { type Ledger, layoutOf, readLedger, syncAll, writeLedger } from './ledger.ts'
import type { Npm } from './npm.ts'
import type { InstallRequest, Job, Tier } from './schema.ts'
import { complete, type Fetched, fetchPackage } from './source.ts'
import { idOfPackage, parseSpec, type Spec, SpecRefused } from './spec.ts'
import { restoreDecisions, sweep } from './tidy.ts'
import { tryVersion } from './trial.ts'

export interface PackagesOptions {
  readonly configDir: string
  readonly extensions: Extensions
  readonly jobs: Jobs
  readonly npm: Npm
  readonly log: Log
  readonly signal: AbortSignal
  readonly nowUnix: () => number
  readonly catalog: () => PluginCatalog | undefined
  /** Runs a step that a crash takes back; resolves or rejects once that is settled. */
  readonly guarded: (work: () => Promise<void>) => Promise<void>
}

/** Where a package is to come from. */
interface Origin {
  readonly spec: Spec
  readonly tier: Tier
  readonly offer?: CatalogOffer | undefined
  readonly registries?: Readonly<Record<string, string>>
  readonly trust?: boolean
  readonly grant?: Grant | undefined
}

export type Packages = ReturnType<typeof createPackages>

export function createPackages(options: PackagesOptions) {
  const { configDir, extensions, jobs, npm, log, signal, nowUnix, catalog, guarded } = options
  const layout = layoutOf(configDir)
  const recordOf = (records: readonly ExtensionRecord[], id: string) => records.find(each => each.id === id)

  /** A host that stops does not wait for itself. */
  const reload = async (): Promise<readonly ExtensionRecord[]> => {
    const stopped = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('the host stopped it')), { once: true })
      if (signal.aborted) reject(new Error('the host stopped it'))
    })
    return Promise.race([extensions.reload(), stopped])
  }

  const tidy = (): Promise<void> => sweep(configDir, extensions)
  const examine = (folder: string): Promise<Examined> => extensions.examine(folder)

  /** An operation that ends with folders, ledger and running code in agreement. */
  const operate = async (work: () => Promise<void>): Promise<void> => {
    try {
      await guarded(work)
    } finally {
      // Of a ledger that cannot be read the host would think that nothing is installed.
      const isReadable = await readLedger(layout).then(
        () => true,
        () => false,
      )
      if (isReadable && !signal.aborted) {
        const note = (err: unknown): void => log.warn('not all leftovers could be removed', { err })
        await restoreDecisions(configDir, extensions).catch(note)
        await reload()
        await tidy().catch(note)
      }
    }
  }

  /** The folder of a version, filled whole or not at all. */
  const settleFolder = async ({ folder, written }: Fetched, id: string, version: string): Promise<void> => {
    const target = join(layout.versions, id, version)
    await syncAll(written)
    await rm(target, { recursive: true, force: true })
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await rename(folder, target)
    await syncAll([dirname(target), layout.versions])
  }

  const prove = (before: Ledger, next: Ledger, pkg: string, say: Progress, decided?: PermissionDecision) =>
    tryVersion({ before, next, pkg, decided }, { configDir, layout, extensions, reload }, say)

  /** What is to be decided for a version; throws where it asks for more than anybody has said yes to. */
  const consented = (ledger: Ledger, found: Inspected, grant: Grant | undefined) => {
    const { pkg, id, version } = found
    const asks = asksOf(found)
    const before = extensions.decided(id)
    const after = grant === undefined ? before : granting(before, grant, asks)
    const open = undecided(after, asks)
    const isUpdate = ledger.dependencies[pkg] !== undefined
    const unit = ledger.packages[pkg]?.unit
    const record = recordOf(extensions.list(), id)
    // What waits for a decision runs nothing, whatever it asks for.
    const isWaiting = unit
      ? undecided(before, unit.permissions).length > 0
      : record?.permissions.some(({ state }) => state === 'asked')
    if (isUpdate && open.length > 0 && !isWaiting) throw new AsksForMore(`${pkg} ${version}`, open)
    return { before, after: isDeepStrictEqual(after, before) ? undefined : after, open }
  }

  /** Decides what an operation needs; should that not come to its end, all of it is forgotten again. */
  const prepare = async (
    ledger: Ledger,
    { pkg, id }: Inspected,
    { before, after }: ReturnType<typeof consented>,
    trust = false,
  ): Promise<void> => {
    const isUpdate = ledger.dependencies[pkg] !== undefined
    if (after || (trust && !isUpdate))
      await writeLedger(layout, withMark(ledger, id, isUpdate ? before : undefined))
    if (trust) await extensions.trust(id, true)
    if (after) await extensions.decide(id, after)
  }

  const install = (origin: Origin, say: Progress): Promise<void> =>
    operate(async () => {
      say.phase('fetching')
      const { spec, offer, registries, trust = false, tier, grant } = origin
      const source = { npm, work: layout.work, examine, signal }
      const fetched = await fetchPackage(spec, source, { registries, integrity: offer?.integrity })
      say.phase('checking')
      const ledger = await readLedger(layout)
      const records = extensions.list()
      const found = admitted(fetched, { ledger, records, catalog: catalog(), offer, isTrusted: trust })
      const { pkg, id, version, realm, title, permissions } = found
      for (const remark of fetched.report.remarks) say.line(remark)
      const asks = asksOf(found)
      if (asks.length) say.line(`${id} asks for ${listed(asks)}`)
      const consent = consented(ledger, found, grant)
      const named = `${pkg} ${version}`
      const known = ledger.packages[pkg]?.contents?.[version] ?? ledger.seals[pkg]?.[version]
      if (ledger.dependencies[pkg] === version && known === found.seal) {
        if (consent.after) await extensions.decide(id, consent.after)
        return say.line(`${named} is installed already`)
      }
      refuseUnless(
        known === undefined || known === found.seal,
        `${named} is here with other contents; a version never changes, give it another number`,
      )
      signal.throwIfAborted()
      say.phase('installing')
      const folder = join(layout.versions, id, version)
      const sealed = ledger.seals[pkg]?.[version]
      // Fetched anew its dependencies might be others.
      const isHere = sealed !== undefined && existsSync(folder) && (await examine(folder)).seal === sealed
      const whole = isHere ? fetched : await complete(fetched, source, registries)
      if (!isHere) await settleFolder(whole, id, version)
      await prepare(ledger, found, consent, trust)
      const arrival: Arrival = {
        pkg,
        id,
        version,
        tier,
        source: offer?.source,
        entryId: offer?.id,
        integrity: fetched.integrity,
        seal: isHere ? sealed : whole.report.found!.seal,
        contents: whole.contents,
        unit: realm === 'unit' ? { title, permissions: [...permissions] } : undefined,
        installedAt: nowUnix(),
      }
      const decided = consent.after && consent.before
      await prove(ledger, withArrival(ledger, arrival, decided), pkg, say, decided)
      say.line(`${named} is installed`)
      if (realm === 'unit' && consent.open.length)
        say.line(`${id} waits: nobody has granted ${listed(consent.open)}; run svc-host plugins grant ${id}`)
    })

  const refusedSpec = (text: string): Spec => {
    try {
      return parseSpec(text)
    } catch (error) {
      if (error instanceof SpecRefused) throw new HttpError(400, error.message)
      throw error
    }
  }
  const installed = async (pkg: string): Promise<Ledger> => {
    const ledger = await readLedger(layout)
    if (ledger.dependencies[pkg] === undefined) throw new HttpError(400, `${pkg} is not installed`)
    return ledger
  }
  const offered = (source: string, id: string): CatalogOffer => {
    const offer = catalog()?.find(source, id)
    if (!offer)
      throw new HttpError(400, `the source ${source} has no "${id}"; refresh the catalog, or see its entries`)
    return offer
  }
  const fromOffer = (offer: CatalogOffer): Origin => ({
    spec: refusedSpec(`${offer.pkg}@${offer.version}`),
    tier: offer.tier,
    offer,
  })

  return {
    layout,
    tidy,
    install({ source, id, spec, via, trust, registries, grant }: InstallRequest): Job {
      if (grant) checkTexts(grant)
      const offer = spec === undefined ? offered(source!, id!) : undefined
      const origin = offer
        ? fromOffer(offer)
        : { spec: refusedSpec(spec!), tier: via ?? ('unverified' as const), registries }
      return jobs.begin('install', offer?.pkg ?? spec!, say => install({ ...origin, trust, grant }, say))
    },
    async update(pkg: string, version?: string, grant?: Grant): Promise<Job> {
      if (grant) checkTexts(grant)
      const ledger = await installed(pkg)
      const { source, tier = 'unverified' } = ledger.packages[pkg] ?? {}
      const offer = source === undefined ? undefined : catalog()?.newest(source, pkg)
      if (offer && version === undefined)
        return jobs.begin('update', pkg, say => install({ ...fromOffer(offer), grant }, say))
      const spec = refusedSpec(`${pkg}@${version ?? 'latest'}`)
      return jobs.begin('update', pkg, say =>
        install({ spec, tier: tier === 'cli' ? tier : 'unverified', grant }, say),
      )
    },
    async rollback(pkg: string, grant?: Grant): Promise<Job> {
      if (grant) checkTexts(grant)
      const { id, previous } = (await installed(pkg)).packages[pkg] ?? {}
      if (previous === undefined) throw new HttpError(400, `${pkg} has no former version here to go back to`)
      const why = catalog()?.blocked(pkg, previous)
      if (why !== undefined) throw new HttpError(400, `${pkg} ${previous} is blocked: ${why}`)
      return jobs.begin('rollback', pkg, say =>
        operate(async () => {
          const ledger = await readLedger(layout)
          const folder = join(layout.versions, id!, previous)
          refuseUnless(existsSync(folder), `${pkg} ${previous} is not here any more`)
          const { found, refusals } = await inspect(folder, examine)
          if (!found) throw new Error(`${pkg} ${previous} cannot be used any more: ${refusals.join('; ')}`)
          const consent = consented(ledger, found, grant)
          await prepare(ledger, found, consent)
          const { realm, title, permissions } = found
          const unit = realm === 'unit' ? { title, permissions: [...permissions] } : undefined
          const decided = consent.after && consent.before
          await prove(ledger, withRollback(ledger, pkg, unit, decided), pkg, say, decided)
          say.line(`${pkg} is ${previous} again`)
        }),
      )
    },
    async pin(pkg: string, pinned: boolean): Promise<void> {
      await installed(pkg)
      if (jobs.isBusy()) throw new HttpError(409, 'another package operation is under way')
      const ledger = await readLedger(layout)
      const entry = ledger.packages[pkg]
      if (!entry) throw new HttpError(400, `${pkg} was written into the ledger by hand; install it to pin it`)
      await writeLedger(layout, { ...ledger, packages: { ...ledger.packages, [pkg]: { ...entry, pinned } } })
    },
    async uninstall(pkg: string, keepData: boolean): Promise<Job> {
      await installed(pkg)
      return jobs.begin('uninstall', pkg, say =>
        operate(async () => {
          say.phase('removing')
          const before = await readLedger(layout)
          const id = before.packages[pkg]?.id ?? idOfPackage(pkg)
          await writeLedger(layout, withoutPackage(before, pkg, keepData))
          await reload()
          const owed = id === undefined ? 0 : extensions.owed(id)
          if (owed > 0) {
            await writeLedger(layout, before)
            throw new Error(
              `${owed} effects of ${id} could not be taken back, see its log; it stays until they are`,
            )
          }
          say.line(`${pkg} is removed${keepData ? '; its data is kept' : ''}`)
        }),
      )
    },
  }
}
