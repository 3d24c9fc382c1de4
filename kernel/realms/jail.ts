// The walls around a process that runs strangers' code: no network, no files but those named, no rights, little memory.
import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { asAccount } from '../confine.ts'
import { isRoot } from '../folder.ts'

const run = promisify(execFile)

export interface Jail {
  /** Program and what it is given; paths are those inside. */
  readonly command: readonly string[]
  /** What it sees, read-only: `[outside, inside]`. Programs bring what they load along. */
  readonly mounts: readonly (readonly [from: string, to: string])[]
  readonly programs: readonly string[]
}

/** The shared objects that these programs load, and their loader. */
async function objectsOf(programs: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(programs.map(program => run('/usr/bin/env', ['ldd', program])))
  const found = lists.flatMap(({ stdout }) => [...stdout.matchAll(/(\/\S+) \(0x/g)].map(match => match[1]!))
  return [...new Set(found)]
}

/** The command line of a process behind these walls; rejects with a sentence where they cannot be had. */
export async function jailed({ command, mounts, programs }: Jail): Promise<string[]> {
  await run('/usr/bin/env', ['bwrap', '--version']).catch(() => {
    throw new Error(
      'bubblewrap is missing, and no stranger’s code runs without it; install it (apt install bubblewrap)',
    )
  })
  const drop = isRoot() ? await asAccount() : []
  const all = [...programs, ...drop.slice(0, 1)]
  const own = [...(await objectsOf(all)), ...all].map(file => [file, file] as const)
  const files = [...own, ...mounts]
  // Made by name, since those made along the way are closed to another account.
  const folders = [...new Set(files.flatMap(([, to]) => foldersAbove(to)))].sort()
  const limits = ['--core=0', '--fsize=0', '--nofile=256', '--memlock=0']
  const unshare = '--unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try'.split(' ')
  return [
    ...['/usr/bin/env', 'sh', '-c', stepBack, 'sh', 'prlimit', ...limits, '--'],
    ...['bwrap', ...unshare, '--die-with-parent', '--proc', '/proc', '--dev', '/dev', '--chdir', '/'],
    ...folders.flatMap(folder => ['--dir', folder]),
    ...files.flatMap(([from, to]) => ['--ro-bind', from, to]),
    ...(isRoot() ? [] : ['--cap-drop', 'ALL']),
    ...['--', ...drop, ...command],
  ]
}

/** Streams come first on a busy machine. Its session is weighed as one, so that counts too, where there is such a thing. */
const stepBack = '{ echo 5 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 5 "$@"'

const foldersAbove = (path: string): string[] => {
  const folder = dirname(path)
  return folder === '/' ? [] : [...foldersAbove(folder), folder]
}
