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

/** The operator has granted or refused permissions of an extension. */
export const permissionsChanged = event('permissions.changed', z.object({ id: z.string() }))

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
  /** Tells everybody that what the store shows has changed. */
  announce(): void
}
export const PluginPackages = token<PluginPackages>('plugin.packages', '1.0.0')
