// Takes rights away from a process: what it sees of this host and its processes, and whose account it has.
import { execFile } from 'node:child_process'
import type { ProcessSpec } from 'svc-host/sdk'
import { findAccount, isRoot, runtimeFolder } from './folder.ts'

const wrap = 'bwrap --dev-bind / / --unshare-pid --proc /proc'.split(' ')
let canWrap: Promise<boolean> | undefined

/** What a root's command line begins with to become the account without rights. */
export async function asAccount(): Promise<string[]> {
  const { uid, gid } = await findAccount()
  const drop = `--reuid=${uid} --regid=${gid} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all`
  return ['/usr/bin/setpriv', ...drop.split(' '), '--']
}

/** The command line that takes all rights away: a bubblewrap, and another account where the host is root. */
export async function withoutRights(spec: ProcessSpec, configDir: string): Promise<[string, string[]]> {
  canWrap ??= new Promise(done => execFile('/usr/bin/env', [...wrap, 'true'], error => done(!error)))
  const plain = [spec.command, ...(spec.args ?? [])]
  const hide = ['--tmpfs', configDir]
  // Beside our folders lie the buses of a user's own services, which start whatever they are asked to, unconfined.
  const personal = isRoot() ? undefined : process.env['XDG_RUNTIME_DIR']
  if (spec.folders) hide.push('--tmpfs', personal || (await runtimeFolder()))
  for (const path of spec.folders ?? []) hide.push('--bind', path, path)
  const hidden = (await canWrap) && [...wrap, ...hide]
  if (!isRoot()) {
    if (hidden) return ['/usr/bin/env', [...hidden, '--cap-drop', 'ALL', '--', ...plain]]
    const why = 'bubblewrap is missing or may not be used, and without it the config folder could be read'
    throw new Error(`${why}; install it (apt install bubblewrap) and allow user namespaces`)
  }
  // The account alone protects the host; what it cannot do is keep two confined processes apart.
  return ['/usr/bin/env', [...(hidden ? [...hidden, '--'] : []), ...(await asAccount()), ...plain]]
}
