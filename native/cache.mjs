// Where builds of the engine lie: beside its sources, or in the user's cache where these belong to somebody else.
import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/**
 * Folders to look for a build in, the first one first; none that another user could have filled.
 * @param {string} root the package's folder
 * @returns {string[]}
 */
export function engineFolders(root) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const told = process.env['XDG_CACHE_HOME'] ?? ''
  const cache = join(isAbsolute(told) ? told : join(homedir(), '.cache'), 'svc-host', version)
  const owner = statSync(cache, { throwIfNoEntry: false })?.uid
  return [join(root, 'native/build'), ...(owner === undefined || owner === process.getuid?.() ? [cache] : [])]
}
