// A unit without walls, for packages that the operator trusts by name, where walls cannot be had.
import { chmod, copyFile, cp, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readLineValue } from 'svc-host/client'
import type { Unit } from './units.ts'
import { environment, isRoot } from './walls.ts'

/** What starts it, and the way to take back what it was given. */
export interface Start {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  close(): Promise<void>
}

const isSource = import.meta.url.endsWith('.ts')
const program = fileURLToPath(new URL(`./unit-main.${isSource ? 'ts' : 'js'}`, import.meta.url))

/** `state`: its folder, which belongs to the account that it is to have. It keeps no more than that account and dies with the runner. */
export async function startUnwalled(
  unit: Unit,
  state: string,
  configDir: string,
  heapMb: number,
): Promise<Start> {
  const { id, file, folder = '' } = unit
  const { uid, gid } = await stat(state)
  // The config folder is closed to that account: what it is to read is copied out.
  const home = await mkdtemp(join(tmpdir(), 'svc-unit-'))
  try {
    await chmod(home, 0o711)
    await cp(folder, join(home, 'package'), { recursive: true })
    await copyFile(join(configDir, 'native-cert.pem'), join(home, 'native-cert.pem'))
    const url = readLineValue(await readFile(join(configDir, 'mgmt-endpoint'), 'utf8')) ?? ''
    const drop = [
      '--clear-groups',
      `--reuid=${uid}`,
      `--regid=${gid}`,
      '--inh-caps=-all',
      '--bounding-set=-all',
    ]
    const { PATH = '', LANG = '', TZ = '' } = environment()
    return {
      command: [
        ...[
          '/usr/bin/env',
          'setpriv',
          ...(isRoot() ? drop : []),
          '--no-new-privs',
          '--pdeathsig',
          'KILL',
          '--',
        ],
        ...[process.execPath, ...(isSource ? ['--conditions=svc-source'] : [])],
        ...['--disable-warning=ExperimentalWarning', `--max-old-space-size=${heapMb}`],
        // Its folder is reached by being in it: what leads there is closed to its account.
        ...[program, id, join(home, 'package', relative(folder, file)), '/proc/self/cwd'],
      ],
      env: { PATH, LANG, TZ, HOME: home, SVC_MGMT_URL: url, SVC_MGMT_CA: join(home, 'native-cert.pem') },
      cwd: state,
      close: () => rm(home, { recursive: true, force: true }),
    }
  } catch (error) {
    await rm(home, { recursive: true, force: true })
    throw error
  }
}
