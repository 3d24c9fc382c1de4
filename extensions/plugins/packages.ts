// Installing, updating, rolling back and removing while the host runs; whatever happens, the former state or the new one.
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CatalogOffer, PluginCatalog } from 'svc-host/api/catalog'
import { type Examined, type ExtensionRecord, type Extensions, HttpError, type Log } from 'svc-host/sdk'
import { type Arrival, withArrival, withoutPackage, withProof, withRollback } from './change.ts'
import type { Jobs, Progress } from './jobs.ts'
import { type Ledger, layoutOf, readLedger, syncAll, writeLedger } from './ledger.ts'
import type { Npm } from './npm.ts'
import type { InstallRequest, Job, Tier } from './schema.ts'
import { type Fetched, fetchPackage } from './source.ts'
import { idOfPackage, parseSpec, type Spec, SpecRefused } from './spec.ts'
import { sweep } from './tidy.ts'
import { syncTokens } from './tokens.ts'

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
        await reload()
        await tidy().catch(error => log.warn('not all leftovers could be removed', { err: error }))
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

  /** Starts what the ledger names now; goes back when it does not come up although the one before did. */
  const prove = async (before: Ledger, next: Ledger, pkg: string, say: Progress): Promise<void> => {
    const { id } = next.packages[pkg]!
    const former = recordOf(extensions.list(), id)?.state
    await writeLedger(layout, next)
    await syncTokens(
      configDir,
      Object.values(next.packages).map(each => each.id),
    )
    say.phase('starting')
    const now = recordOf(await reload(), id)
    const isUpdate = before.dependencies[pkg] !== undefined
    if (!now) say.line('it starts with the next start that is not a safe one')
    const isUp = !now || now.state === 'on' || !now.enabled
    const isNoWorse = isUp || (former !== 'on' && now.state !== 'failed' && now.state !== 'quarantined')
    if (!isUpdate || isNoWorse) {
      await writeLedger(layout, withProof(next, pkg))
      if (now && !isUp) say.line(`${id} is ${now.state}: ${now.why}`)
      return
    }
    await writeLedger(layout, before)
    const again = recordOf(await reload(), id)
    const version = before.dependencies[pkg]
    throw new Error(
      `${id} ${next.dependencies[pkg]} did not come up: ${now.why}; ${version} is ${again?.state} again`,
    )
  }

  const refuseUnless = (isFine: boolean, why: string): void => {
    if (!isFine) throw new Error(why)
  }

  const checkFits = (ledger: Ledger, { report }: Fetched, { trust = false, offer }: Origin): void => {
    const { found, refusals } = report
    if (refusals.length > 0 || !found) throw new Error(`the package is refused: ${refusals.join('; ')}`)
    const { pkg, id, version, realm } = found
    if (offer)
      refuseUnless(
        offer.pkg === pkg && offer.version === version,
        `it is ${pkg} ${version}, not what the catalog names`,
      )
    const why = catalog()?.blocked(pkg, version)
    refuseUnless(why === undefined, `${pkg} ${version} is blocked: ${why}`)
    const other = Object.keys(ledger.dependencies).find(each => each !== pkg && idOfPackage(each) === id)
    refuseUnless(other === undefined, `${other} holds "${id}" already; remove it first`)
    const isBuiltin = recordOf(extensions.list(), id)?.builtin === true
    refuseUnless(!isBuiltin, `"${id}" is the name of a built-in extension; the package needs another`)
    const isTrusted = trust || ledger.packages[pkg] !== undefined
    refuseUnless(
      realm !== 'kernel' || isTrusted,
      `${pkg} wants to run in the process of the host, with all its rights; install it with --trust if you trust its authors`,
    )
  }

  const install = (origin: Origin, say: Progress): Promise<void> =>
    operate(async () => {
      say.phase('fetching')
      const { spec, offer, registries, trust, tier } = origin
      const source = {
        npm,
        work: layout.work,
        examine: (folder: string): Promise<Examined> => extensions.examine(folder),
        signal,
      }
      const fetched = await fetchPackage(spec, source, { registries, integrity: offer?.integrity })
      say.phase('checking')
      const before = await readLedger(layout)
      checkFits(before, fetched, origin)
      const { pkg, id, version, seal, permissions } = fetched.report.found!
      for (const remark of fetched.report.remarks) say.line(remark)
      if (permissions.length) say.line(`it asks for: ${permissions.join(', ')}`)
      const known = before.seals[pkg]?.[version]
      const named = `${pkg} ${version}`
      if (before.dependencies[pkg] === version && known === seal)
        return say.line(`${named} is installed already`)
      refuseUnless(
        known === undefined || known === seal,
        `${named} is here with other contents; a version never changes, give it another number`,
      )
      signal.throwIfAborted()
      say.phase('installing')
      await settleFolder(fetched, id, version)
      if (trust) {
        // Should it not come to the ledger, what is decided here is to be forgotten.
        const isNew = before.dependencies[pkg] === undefined
        if (isNew)
          await writeLedger(layout, { ...before, removing: [...before.removing, { id, keepData: true }] })
        await extensions.trust(id, true)
      }
      const { source: from, id: entryId } = offer ?? {}
      const arrival: Arrival = {
        pkg,
        id,
        version,
        tier,
        source: from,
        entryId,
        integrity: fetched.integrity,
        seal,
        installedAt: nowUnix(),
      }
      await prove(before, withArrival(before, arrival), pkg, say)
      say.line(`${named} is installed`)
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
    install({ source, id, spec, via, trust, registries }: InstallRequest): Job {
      const offer = spec === undefined ? offered(source!, id!) : undefined
      const origin = offer
        ? fromOffer(offer)
        : { spec: refusedSpec(spec!), tier: via ?? ('unverified' as const), registries }
      return jobs.begin('install', offer?.pkg ?? spec!, say => install({ ...origin, trust }, say))
    },
    async update(pkg: string, version?: string): Promise<Job> {
      const ledger = await installed(pkg)
      const { source, tier = 'unverified' } = ledger.packages[pkg] ?? {}
      const offer = source === undefined ? undefined : catalog()?.newest(source, pkg)
      if (offer && version === undefined)
        return jobs.begin('update', pkg, say => install(fromOffer(offer), say))
      const spec = refusedSpec(`${pkg}@${version ?? 'latest'}`)
      return jobs.begin('update', pkg, say =>
        install({ spec, tier: tier === 'cli' ? tier : 'unverified' }, say),
      )
    },
    async rollback(pkg: string): Promise<Job> {
      const { id, previous } = (await installed(pkg)).packages[pkg] ?? {}
      if (previous === undefined) throw new HttpError(400, `${pkg} has no former version here to go back to`)
      const why = catalog()?.blocked(pkg, previous)
      if (why !== undefined) throw new HttpError(400, `${pkg} ${previous} is blocked: ${why}`)
      return jobs.begin('rollback', pkg, say =>
        operate(async () => {
          const before = await readLedger(layout)
          refuseUnless(
            existsSync(join(layout.versions, id!, previous)),
            `${pkg} ${previous} is not here any more`,
          )
          await prove(before, withRollback(before, pkg), pkg, say)
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
