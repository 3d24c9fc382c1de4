// What a fetched package must be, beside what it holds, before it may take its place here.
import type { CatalogOffer, PluginCatalog } from 'svc-host/api/catalog'
import type { ExtensionRecord } from 'svc-host/sdk'
import type { Inspected } from './inspect.ts'
import type { Ledger } from './ledger.ts'
import type { Fetched } from './source.ts'
import { idOfPackage } from './spec.ts'

export interface Surroundings {
  readonly ledger: Ledger
  readonly records: readonly ExtensionRecord[]
  readonly catalog: PluginCatalog | undefined
  readonly offer?: CatalogOffer | undefined
  /** The operator lets it run in the process of the host. */
  readonly isTrusted: boolean
}

export const refuseUnless = (isFine: boolean, why: string): void => {
  if (!isFine) throw new Error(why)
}

/** What the package is; throws why it is not let in. */
export function admitted({ report }: Fetched, around: Surroundings): Inspected {
  const { ledger, records, catalog, offer, isTrusted } = around
  const { found, refusals } = report
  if (refusals.length > 0 || !found) throw new Error(`the package is refused: ${refusals.join('; ')}`)
  const { pkg, id, version, realm } = found
  if (offer)
    refuseUnless(
      offer.pkg === pkg && offer.version === version,
      `it is ${pkg} ${version}, not what the catalog names`,
    )
  const why = catalog?.blocked(pkg, version)
  refuseUnless(why === undefined, `${pkg} ${version} is blocked: ${why}`)
  const other = Object.keys(ledger.dependencies).find(each => each !== pkg && idOfPackage(each) === id)
  refuseUnless(other === undefined, `${other} holds "${id}" already; remove it first`)
  const isBuiltin = records.some(each => each.id === id && each.builtin)
  refuseUnless(!isBuiltin, `"${id}" is the name of a built-in extension; the package needs another`)
  refuseUnless(
    realm !== 'kernel' || isTrusted || ledger.packages[pkg] !== undefined,
    `${pkg} wants to run in the process of the host, with all its rights; install it with --trust if you trust its authors`,
  )
  return found
}

/** What it asks the operator for; in the process of the host nothing could be kept from it. */
export const asksOf = ({ realm, permissions }: Inspected): readonly string[] =>
  realm === 'kernel' ? [] : permissions
