// The catalog as the API tells it: offers beside what is installed and what this host can run.

import semver from 'semver'
import type { InstalledPackage } from 'svc-host/api/plugins'
import type { CatalogEntry } from './schema.ts'
import type { Listed } from './sources.ts'

type Platform = CatalogEntry['platforms'][number]
const platforms: Partial<Record<NodeJS.Platform, Platform>> = {
  linux: 'linux',
  win32: 'windows',
  darwin: 'macos',
}
export const ownPlatform: Platform = platforms[process.platform] ?? 'linux'

export interface Surroundings {
  readonly hostVersion: string
  readonly platform: Platform
  readonly installed: readonly InstalledPackage[]
  readonly blocked: (pkg: string, version: string) => string | undefined
}

export function entryOf(
  offer: Listed,
  { hostVersion, platform, installed, blocked }: Surroundings,
): CatalogEntry {
  const { entry, source, tier } = offer
  const { integrity: _, minHost, reviewedAt, ...plain } = entry
  const { pkg, version } = entry
  const own = installed.find(each => each.pkg === pkg)?.version
  const why = blocked(pkg, version)
  const isTooNew = minHost !== undefined && semver.valid(minHost) !== null && semver.lt(hostVersion, minHost)
  const reason = entry.platforms.includes(platform)
    ? isTooNew && `needs host ${minHost}, this is ${hostVersion}`
    : `runs on ${entry.platforms.join(' and ')} only`
  return {
    ...plain,
    source,
    tier,
    compatible: !reason,
    update_available: own !== undefined && semver.valid(version) !== null && semver.gt(version, own),
    ...(minHost !== undefined && { min_host: minHost }),
    ...(reviewedAt !== undefined && { reviewed_at: reviewedAt }),
    ...(reason && { incompatible_reason: reason }),
    ...(own !== undefined && { installed_version: own }),
    ...(why !== undefined && { blocked: why }),
  }
}
