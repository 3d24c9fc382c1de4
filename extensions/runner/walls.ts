// What a package or script behind walls sees of this host: its own files, granted folders, what it may import, and two socket
// files that lead to the API and to granted hosts.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, chown, lstat, mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readLineValue } from 'svc-host/client'
import { createEgress } from 'svc-host/egress'
import { covers, type Jail, PermissionError, parsePermission, unprivilegedAccount } from 'svc-host/sdk'
import { openForward, type Place, type SocketFile } from './forward.ts'
import { apiPort, proxyPort, socketFiles } from './ports.ts'
import { openProxy } from './proxy.ts'

/** Largest file that it may write, and how many tasks it may have at once. */
const fileBytes = 256 * 2 ** 20
const tasks = 128

type Mount = readonly [from: string, to: string]

export interface WallsOptions {
  readonly id: string
  readonly granted: readonly string[]
  readonly configDir: string
  /** A folder that is closed to everybody else, for the socket files. */
  readonly socketsDir: string
  /** Its own files, read-only. */
  readonly own: readonly Mount[]
  /** Its folder that lasts, seen as `/state`; the account's that it runs as. */
  readonly state: string
  /** A word about it for the log. */
  note(text: string): void
}
export interface Walls {
  readonly jail: Jail
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Whether there is what walls are made with. */
export const hasBubblewrap = (): Promise<boolean> =>
  new Promise(done => execFile('/usr/bin/env', ['bwrap', '--version'], error => done(!error)))

export const isRoot = (): boolean => process.getuid?.() === 0

/** Who it runs as. */
async function account(): Promise<{ name: string; uid: number; gid: number }> {
  const [uid = 0, gid = 0] = [process.getuid?.(), process.getgid?.()]
  if (!isRoot()) return { name: 'plugin', uid, gid }
  const rows = (await readFile('/etc/passwd', 'utf8')).split('\n').map(row => row.split(':'))
  const row = rows.find(([name]) => name === unprivilegedAccount)
  if (!row) throw new Error(`the system account ${unprivilegedAccount} is missing; run the set-up`)
  return { name: unprivilegedAccount, uid: Number(row[2]), gid: Number(row[3]) }
}

/** Makes a folder that it may write to; what leads there is closed to others. */
export async function makeOwn(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const { uid, gid } = await account()
  if (isRoot()) await chown(folder, uid, gid)
  await chmod(folder, 0o700)
  return folder
}

/** Where the host's API is at this moment. */
async function apiPlace(configDir: string): Promise<Place> {
  const url = readLineValue(await readFile(join(configDir, 'mgmt-endpoint'), 'utf8'))
  const { hostname, port } = new URL(url ?? '')
  return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port) || 443 }
}

/** What was granted, as folders here; what the config folder would be seen in is shown without it. */
export async function grantedFolders(
  { id, granted }: Pick<WallsOptions, 'id' | 'granted'>,
  configDir: string,
  home = homedir(),
) {
  const own = await realpath(configDir)
  const found = {
    read: [] as Mount[],
    write: [] as Mount[],
    hidden: [] as string[],
    missing: [] as string[],
  }
  for (const { kind, about } of granted.map(parsePermission)) {
    if (kind !== 'read' && kind !== 'write') continue
    const path = resolve(about.startsWith('~/') ? join(home, about.slice(2)) : about)
    if (!(await lstat(path).catch(() => undefined))) found.missing.push(path)
    else {
      const real = await realpath(path)
      if (`${real}/`.startsWith(`${own}/`))
        throw new Error(`${kind}:${about} is in the config folder of the host, which ${id} must not see`)
      if (real === '/' || real === '/sys' || /^\/(proc|dev|run)(\/|$)/.test(real))
        throw new Error(`${kind}:${about} is no folder of files; grant one that is`)
      // Under the name that was granted, which a program asks for, whatever links it goes through.
      found[kind].push([real, path])
      if (own.startsWith(`${real}/`)) found.hidden.push(join(path, relative(real, own)))
    }
  }
  return found
}

const packageRoot = dirname(fileURLToPath(import.meta.resolve('svc-host/package.json')))
const isSource = import.meta.url.endsWith('.ts')
const inside = '/svc-host'

/** A module of this package as it is seen from inside; `path` without its ending. */
export const programPath = (path: string): string =>
  isSource ? `${inside}/${path}.ts` : `${inside}/dist/${path}.js`

/** The parts of this package that may be imported, and what they import. */
function sharedMounts(): Mount[] {
  const base = isSource ? '' : 'dist/'
  const shared = new Set(['package.json', `${base}sdk`, `${base}extensions`])
  const { resolve: find } = createRequire(import.meta.url)
  const packages = ['zod', '@noble/curves', '@noble/hashes'].flatMap((name): Mount[] => {
    try {
      return [[dirname(find(`${name}/package.json`)), `${inside}/node_modules/${name}`]]
    } catch {
      return []
    }
  })
  return [...[...shared].map((path): Mount => [join(packageRoot, path), `${inside}/${path}`]), ...packages]
}

/** What programs ask for by name: who they are, and where `localhost` is. */
async function etcMounts(folder: string): Promise<Mount[]> {
  const { name, uid, gid } = await account()
  const files = {
    passwd: `${name}:x:${uid}:${gid}::/state:/bin/false\n`,
    group: `${name}:x:${gid}:\n`,
    hosts: '127.0.0.1 localhost\n',
  }
  return Promise.all(
    Object.entries(files).map(async ([file, text]): Promise<Mount> => {
      await writeFile(join(folder, file), text, { mode: 0o644 })
      return [join(folder, file), `/etc/${file}`]
    }),
  )
}

/** Flags of Node in there. */
export const nodeFlags = (heapMb: number): string[] => [
  ...(isSource ? ['--conditions=svc-source'] : []),
  '--disable-warning=ExperimentalWarning',
  `--max-old-space-size=${heapMb}`,
  '--import',
  programPath('extensions/runner/ports'),
]

export const environment = (): Record<string, string> => {
  const proxy = `http://127.0.0.1:${proxyPort}`
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    LANG: process.env['LANG'] ?? 'C.UTF-8',
    TZ: process.env['TZ'] ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    HOME: '/state',
    TMPDIR: '/tmp',
    SVC_MGMT_URL: `https://127.0.0.1:${apiPort}`,
    SVC_MGMT_CA: '/run/host/native-cert.pem',
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    NO_PROXY: `127.0.0.1:${apiPort}`,
    NODE_USE_ENV_PROXY: '1',
  }
}

/** Opens what it is given; rejects with a sentence where a grant cannot be kept. */
export async function openWalls(options: WallsOptions): Promise<Walls> {
  const { id, granted, configDir, socketsDir, own, state, note } = options
  const folders = await grantedFolders(options, configDir)
  for (const path of folders.missing) note(`${path} is not there, so that it cannot be seen`)
  const egress = createEgress(permission => {
    if (granted.some(each => covers(each, permission))) return
    throw new PermissionError(permission, `${id} has not been granted ${permission}`)
  })
  // Names of socket files must be short.
  const name = join(socketsDir, createHash('sha256').update(id).digest('hex').slice(0, 12))
  const api = await openForward(`${name}.api`, () => apiPlace(configDir))
  const proxy = await openProxy(`${name}.web`, { egress, refused: note })
  const sockets: SocketFile[] = [api, proxy]
  const jail: Jail = {
    programs: [process.execPath],
    mounts: [
      ...sharedMounts(),
      ...(await etcMounts(socketsDir)),
      ...own,
      [join(configDir, 'native-cert.pem'), '/run/host/native-cert.pem'],
      ...folders.read,
    ],
    writable: [
      [state, '/state'],
      [api.path, socketFiles.api],
      [proxy.path, socketFiles.proxy],
      ...folders.write,
    ],
    hidden: folders.hidden,
    fileBytes,
    tasks,
  }
  return {
    jail,
    env: environment(),
    async close() {
      for (const socket of sockets) await socket.close()
    },
  }
}
