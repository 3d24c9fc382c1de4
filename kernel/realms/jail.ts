// The walls around a process that runs strangers' code: no network, no files but those named, no rights, little memory.
import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { Jail, ProcessSpec } from 'svc-host/sdk'
import { asAccount } from '../confine.ts'
import { isRoot } from '../folder.ts'

const run = promisify(execFile)

const known = new Map<string, Promise<string>>()
/** What a program says about this system; asked once, unless it failed. */
function ask(...command: string[]): Promise<string> {
  const key = command.join(' ')
  const said = known.get(key) ?? run('/usr/bin/env', command).then(({ stdout }) => stdout)
  known.set(key, said)
  said.catch(() => known.delete(key))
  return said
}
const canRun = (...command: string[]): Promise<boolean> =>
  ask(...command).then(
    () => true,
    () => false,
  )

/** The shared objects that these programs load, and their loader. */
async function objectsOf(programs: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(programs.map(program => ask('ldd', program)))
  const found = lists.flatMap(list => [...list.matchAll(/(\/\S+) \(0x/g)].map(match => match[1]!))
  return [...new Set(found)]
}

/** What a process behind walls is started with. */
export type Jailed = Pick<ProcessSpec, 'command' | 'args' | 'cwd'> & { readonly jail: Jail }

/** Room in memory for its temporary files. */
const temporaryBytes = 64 * 2 ** 20
/** Where its tasks can only be counted together with those of others of its account. */
const sharedTasks = 4096

/** The command line of a process behind these walls; rejects with a sentence where they cannot be had. */
export async function jailed({ command, args = [], cwd = '/', jail }: Jailed): Promise<string[]> {
  await run('/usr/bin/env', ['bwrap', '--version']).catch(() => {
    throw new Error(
      'bubblewrap is missing, and no stranger’s code runs without it; install it (apt install bubblewrap)',
    )
  })
  const { mounts, writable = [], hidden = [], fileBytes = 0, tasks } = jail
  const drop = isRoot() ? await asAccount() : []
  const count = tasks === undefined ? [] : await countedApart(drop, tasks)
  const inner = ['prlimit', 'unshare'].filter(name => count.includes(`/usr/bin/${name}`))
  const programs = [...jail.programs, ...drop.slice(0, 1), ...inner.map(name => `/usr/bin/${name}`)]
  const own = [...(await objectsOf(programs)), ...programs].map(file => [file, file] as const)
  const temporary = ['--perms', '1777', '--size', String(temporaryBytes), '--tmpfs']
  const places: Place[] = [
    ...(fileBytes ? ['/tmp', '/dev/shm'] : []).map((to): Place => [to, [...temporary, to]]),
    ...[...own, ...mounts].map(([from, to]): Place => [to, ['--ro-bind', from, to]]),
    ...writable.map(([from, to]): Place => [to, ['--bind', from, to]]),
    ...hidden.map((to): Place => [to, ['--tmpfs', to, '--remount-ro', to]]),
  ]
  const limits = ['--core=0', `--fsize=${fileBytes}`, '--nofile=256', '--memlock=0']
  const unshare = '--unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try'.split(' ')
  return [
    ...['/usr/bin/env', 'sh', '-c', stepBack, 'sh', 'prlimit', ...limits, '--'],
    ...['bwrap', ...unshare, '--die-with-parent', '--proc', '/proc', '--dev', '/dev', '--chdir', cwd],
    ...inOrder(places),
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...(isRoot() ? [] : ['--cap-drop', 'ALL']),
    ...['--', ...drop, ...count, command, ...args],
  ]
}

type Place = readonly [to: string, how: readonly string[]]

/** What lies in another comes after it, and of two at one place the later one counts. */
function* inOrder(places: readonly Place[]): Generator<string> {
  let made: string[] = []
  for (const [to, how] of places.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) {
    // By name, since those made along the way are closed to another account.
    for (const folder of foldersAbove(to)) if (!made.includes(folder)) yield* ['--dir', folder]
    made = [...made, ...foldersAbove(to)].filter(folder => !folder.startsWith(`${to}/`))
    yield* how
  }
}

/** An account's tasks are counted by user namespace: in one of its own, what others of the account have does not count. */
async function countedApart(drop: readonly string[], tasks: number): Promise<string[]> {
  // Not root: bubblewrap has made one already.
  const apart = drop.length === 0 ? [] : ['/usr/bin/unshare', '--user', '--map-current-user', '--']
  const isApart = apart.length === 0 || (await canRun(...drop, ...apart, 'true'))
  const limit = isApart ? tasks : sharedTasks
  return [...(isApart ? apart : []), '/usr/bin/prlimit', `--nproc=${limit}:${limit}`, '--']
}

/**
 * Streams come first on a busy machine. All that it starts is weighed as one, where there is such a thing, so that counts too; and
 * where memory runs out, then here first.
 */
const stepBack =
  '{ echo 3 > /proc/self/autogroup; echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null; exec nice -n 3 "$@"'

const foldersAbove = (path: string): string[] => {
  const folder = dirname(path)
  return folder === '/' ? [] : [...foldersAbove(folder), folder]
}
