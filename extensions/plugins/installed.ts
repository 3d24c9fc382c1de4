// What is installed, as the API tells it: the ledger beside what runs and what the catalogs say.

import semver from 'semver'
import type { PluginCatalog } from 'svc-host/api/catalog'
import type { InstalledPackage } from 'svc-host/api/plugins'
import type { ExtensionRecord } from 'svc-host/sdk'
import type { Ledger } from './ledger.ts'
import type { InstalledRow } from './schema.ts'
import { idOfPackage } from './spec.ts'

/** A package that somebody has written into the ledger by hand is one that nobody has verified. */
const unknown = { tier: 'unverified' as const, source: undefined, entryId: undefined, previous: undefined }

export const installedPackages = ({ dependencies, packages }: Ledger): InstalledPackage[] =>
  Object.entries(dependencies).map(([pkg, version]) => ({
    pkg,
    version,
    id: packages[pkg]?.id ?? idOfPackage(pkg) ?? pkg,
  }))

export function installedRows(
  ledger: Ledger,
  records: readonly ExtensionRecord[],
  catalog: PluginCatalog | undefined,
  units: readonly { readonly id: string; readonly state: string }[],
): InstalledRow[] {
  return installedPackages(ledger).map(({ pkg, id, version }) => {
    const entry = ledger.packages[pkg]
    const { tier, source, entryId, previous } = entry ?? unknown
    const record = records.find(each => each.id === id)
    const isRunning = units.some(each => each.id === id && each.state === 'running')
    const newest = source === undefined ? undefined : catalog?.newest(source, pkg)?.version
    const hasUpdate = newest !== undefined && semver.gt(newest, version)
    const optional = {
      source,
      entry_id: entryId,
      title: record?.title ?? entry?.unit?.title,
      unit: entry?.unit && true,
      installed_at: entry?.installedAt,
      update_available: hasUpdate ? newest : undefined,
      blocked: catalog?.blocked(pkg, version),
      integrity: entry?.integrity[version],
      previous_version: previous,
      pinned: entry?.pinned || undefined,
    }
    const given = Object.entries(optional).filter(([, value]) => value !== undefined)
    return {
      pkg,
      tier,
      running: entry?.unit ? isRunning : record?.state === 'on',
      version,
      plugin_id: id,
      ...Object.fromEntries(given),
    }
  })
}
