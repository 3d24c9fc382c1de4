// Catalog's public face: what sources say of packages.
import { token } from 'svc-host/sdk'

/** A version of a package that a source vouches for. */
export interface CatalogOffer {
  readonly source: string
  /** `verified`: the built-in source says so. */
  readonly tier: 'verified' | 'external'
  readonly id: string
  readonly pkg: string
  readonly version: string
  /** sha512 of the package, as npm writes it. */
  readonly integrity: string
}

/** What sources say of packages; the extension that keeps the catalogs provides it. */
export interface PluginCatalog {
  find(source: string, id: string): CatalogOffer | undefined
  /** What the source that a package came from offers now. */
  newest(source: string, pkg: string): CatalogOffer | undefined
  /** Why a version is blocked; undefined: no source blocks it. */
  blocked(pkg: string, version: string): string | undefined
}
export const PluginCatalog = token<PluginCatalog>('plugin.catalog', '1.0.0')
