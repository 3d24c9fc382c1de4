// The process realm: a package that needs Node itself runs in a child process behind walls, and the kernel speaks with it.
import { cp, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type {
  Context,
  Guest,
  GuestProcess,
  HostInfo,
  ManagedProcess,
  ProcessRealm,
  Scope,
} from 'svc-host/sdk'
import { z } from 'zod'
import { environment, hasBubblewrap, isRoot, makeOwn, nodeFlags, openWalls, programPath } from './walls.ts'

const heapMb = 384
const program = 'sdk/realm/process-main'

/** Made when a package was installed; one that lies in a folder elsewhere has none. */
async function tokenOf(configDir: string, id: string): Promise<Record<string, string>> {
  const text = await readFile(join(configDir, 'plugin-run', 'plugin-tokens.json'), 'utf8').catch(() => '{}')
  const token = z.record(z.string(), z.string()).safeParse(JSON.parse(text)).data?.[id]
  return token === undefined ? {} : { SVC_PLUGIN_TOKEN: token }
}

export function createProcessRealm(ctx: Pick<Context, 'scope'>, { configDir }: HostInfo): ProcessRealm {
  const piped = { output: 'pipe', pipes: 1, graceMs: 0 } as const

  async function behindWalls(scope: Scope, { id, folder, main, granted, log }: Guest) {
    const socketsDir = await scope.folder(`socket files of ${id}`)
    // Not the folder itself: what the kernel keeps for it lies there, and follows no path that it could bend.
    const state = await makeOwn(join(configDir, 'plugin-state', id, 'files'))
    const note = (text: string): void => log.warn(text)
    const walls = await openWalls({
      id,
      granted,
      configDir,
      socketsDir,
      state,
      own: [[folder, '/package']],
      note,
    })
    await scope.effect('socket files', () => walls.close)
    const child = await scope.process(`extension ${id}`, {
      ...piped,
      command: process.execPath,
      args: [...nodeFlags(heapMb), programPath(program)],
      cwd: '/state',
      env: walls.env,
      jail: walls.jail,
    })
    return { process: child, main: join('/package', relative(folder, main)), hasWalls: true }
  }

  /** A plain child without rights of its own, for those that the operator trusts by name. */
  async function withoutWalls(scope: Scope, { id, folder, main }: Guest) {
    const home = await scope.folder(`files of ${id}`, { unprivileged: true })
    // The config folder is closed to its account.
    await cp(folder, join(home, 'package'), { recursive: true })
    await cp(join(configDir, 'native-cert.pem'), join(home, 'native-cert.pem'))
    const url = (await readFile(join(configDir, 'mgmt-endpoint'), 'utf8')).replace(/^.*=/, '').trim()
    const { PATH, LANG, TZ } = environment()
    const isSource = import.meta.url.endsWith('.ts')
    const child = await scope.process(`extension ${id}, without walls`, {
      ...piped,
      command: process.execPath,
      args: [
        ...(isSource ? ['--conditions=svc-source'] : []),
        '--disable-warning=ExperimentalWarning',
        fileURLToPath(new URL(`../../${program}.${isSource ? 'ts' : 'js'}`, import.meta.url)),
      ],
      cwd: home,
      env: {
        PATH,
        LANG,
        TZ,
        HOME: home,
        SVC_MGMT_URL: url,
        SVC_MGMT_CA: join(home, 'native-cert.pem'),
      } as Record<string, string>,
      unprivileged: isRoot(),
    })
    return { process: child, main: join(home, 'package', relative(folder, main)), hasWalls: false }
  }

  return {
    async start(guest): Promise<GuestProcess> {
      const { id, isTrusted } = guest
      const scope = ctx.scope(`process of ${id}`)
      try {
        const hasWalls = (await hasBubblewrap()) || !isTrusted
        const started: { process: ManagedProcess; main: string; hasWalls: boolean } = await (hasWalls
          ? behindWalls(scope, guest)
          : withoutWalls(scope, guest))
        return { ...started, env: await tokenOf(configDir, id), stop: () => scope.close() }
      } catch (error) {
        await scope.close()
        throw error
      }
    },
  }
}
