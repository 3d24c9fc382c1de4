// Folders that leave with their owner: empty at first, under the system's runtime folder, removed with all they hold.
import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, mkdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { unprivilegedAccount } from 'svc-host/sdk'
import { makeDurable } from './durable.ts'
import type { Journal } from './journal.ts'
import type { Effects } from './scope.ts'

export const isRoot = (): boolean => process.getuid?.() === 0

/** User and group id of the account that unprivileged processes and folders belong to where the host is root. */
export async function findAccount(name = unprivilegedAccount): Promise<{ uid: number; gid: number }> {
  const row = (await readFile('/etc/passwd', 'utf8')).split('\n').find(line => line.startsWith(`${name}:`))
  const [, , uid, gid] = row?.split(':') ?? []
  if (uid === undefined) {
    throw new Error(
      `the system account ${name} is missing; run the set-up (npm start) or "useradd --system ${name}"`,
    )
  }
  return { uid: Number(uid), gid: Number(gid) }
}

/** Made once for the machine or the user, and never one that somebody else has put there. */
export async function runtimeFolder(): Promise<string> {
  const own = process.getuid?.() ?? 0
  const personal = process.env['XDG_RUNTIME_DIR']
  const base = isRoot()
    ? '/run/svc-host'
    : personal
      ? join(personal, 'svc-host')
      : join(tmpdir(), `svc-host-${own}`)
  await mkdir(base, { recursive: true, mode: 0o711 })
  const { uid } = await lstat(base)
  if (uid !== own)
    throw new Error(`${base} belongs to user ${uid}, not to this host's user ${own}; remove it`)
  await chmod(base, 0o711)
  return base
}

export async function makeFolder(
  effects: Effects,
  journal: Journal,
  label: string,
  options: { unprivileged?: boolean; mode?: number } = {},
): Promise<string> {
  const account = options.unprivileged && isRoot() ? await findAccount() : undefined
  const path = join(await runtimeFolder(), `${effects.owner}-${randomBytes(6).toString('hex')}`)
  const mode = options.mode ?? 0o700
  await makeDurable(effects, journal, {
    label: `folder ${label}`,
    kind: 'folder',
    record: { label, path },
    undo: undoFolder,
    async change() {
      await mkdir(path)
      await chmod(path, mode)
      if (account) await chown(path, account.uid, account.gid)
    },
  })
  return path
}

/** Removes the folder; refuses a path that no folder of ours can have. */
export async function undoFolder(record: unknown): Promise<void> {
  const { path } = record as { path: string }
  if (!/^svc-host(-\d+)?$/.test(basename(dirname(path))) || !/-[0-9a-f]{12}$/.test(path)) {
    throw new Error(`${path} is no folder of this host`)
  }
  await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 })
}
