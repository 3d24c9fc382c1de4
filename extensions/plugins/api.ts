// Plugins' public face: what is installed, the events about it, and what a catalog of packages is asked.
import { event, token } from 'svc-host/sdk'
import { z } from 'zod'
import { JobKind, JobState } from './schema.ts'

/** Something was installed, updated or removed, or a catalog was read anew: read the store again. */
export const storeChanged = event('store.changed', z.object({}))
/** A package operation has come to another phase. */
export const storeProgressed = event(
  'store.progressed',
  z.object({ job: z.string(), job_kind: JobKind, target: z.string(), state: JobState, phase: z.string() }),
)

/** A package that is installed. */
export interface InstalledPackage {
  readonly pkg: string
  readonly id: string
  readonly version: string
}

/** What is installed on this host. */
export interface PluginPackages {
  installed(): Promise<readonly InstalledPackage[]>
  /** True while a package operation is under way. */
  isBusy(): boolean
}
export const PluginPackages = token<PluginPackages>('plugin.packages', '1.0.0')

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
