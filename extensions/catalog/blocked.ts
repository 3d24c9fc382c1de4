// Versions that a source blocks do not go on running.
import type { InstalledPackage } from 'svc-host/api/plugins'
import type { Extensions, Log } from 'svc-host/sdk'

/** Switches off what is installed in a blocked version; the operator may switch it on again. */
export async function switchOffBlocked(
  installed: readonly InstalledPackage[],
  blocked: (pkg: string, version: string) => string | undefined,
  extensions: Pick<Extensions, 'list' | 'enable'>,
  log: Log,
): Promise<void> {
  for (const { pkg, id, version } of installed) {
    const why = blocked(pkg, version)
    const isEnabled = extensions.list().some(each => each.id === id && each.enabled)
    if (why === undefined || !isEnabled) continue
    log.error(`${pkg} ${version} is blocked and was switched off: ${why}`)
    await extensions.enable(id, false)
  }
}
