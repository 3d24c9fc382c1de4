// kill -9 in the middle of a package operation, and what the next start makes of it: shared by the test and the sweep.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type HostProcess, serve, until } from './host.ts'
import { packFolder, writePackage } from './packages.ts'

const pkg = 'svc-plugin-tiny'
const builtins = fileURLToPath(new URL('../../extensions', import.meta.url))

/** What is there before each operation, and how it is asked for. */
const operations = {
  install: { prepared: [], path: 'install', version: '1.0.0' },
  update: { prepared: ['1.0.0'], path: 'install', version: '2.0.0' },
  rollback: { prepared: ['1.0.0', '2.0.0'], path: 'rollback', version: undefined },
  uninstall: { prepared: ['1.0.0', '2.0.0'], path: 'uninstall', version: undefined },
} as const
export type Operation = keyof typeof operations
export const operationNames = Object.keys(operations) as Operation[]

export interface Killing {
  /** Begins the operation, kills the host at this part of the time it takes, and starts it again; throws where neither state is found. */
  round(part: number): Promise<{ found: 'before' | 'after'; killedAfterMs: number }>
  end(): Promise<void>
}

/** Packages large enough for the moments to fall into each step. */
async function makePackages(shop: string): Promise<Record<string, string>> {
  const files = Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => [`page-${i}.txt`, `${i} `.repeat(20_000)]),
  )
  const made: Record<string, string> = {}
  // The second asks for more, so that a grant comes and goes with it.
  for (const [version, ...more] of [['1.0.0'], ['2.0.0', 'events:session.*', 'network:lamp.lan']] as const) {
    const setup = `await ctx.storage.set('by', '${version}')`
    const manifest = { permissions: ['routes', ...more] }
    const folder = writePackage(shop, 'tiny', {
      version,
      setup,
      files,
      importsSdk: true,
      realm: 'isolate',
      manifest,
    })
    made[version] = await packFolder(folder, join(shop, `${version}.tgz`))
  }
  return made
}

/** All that an operation may leave: files, the ledger, what was decided and is remembered, what the API says. */
async function stateOf(host: HostProcess) {
  const { configDir } = host
  const files = readdirSync(configDir, { recursive: true, withFileTypes: true }).flatMap(entry => {
    const path = join(entry.parentPath, entry.name).slice(configDir.length + 1)
    return /^(plugins|plugin-state|plugin-run|extension-config)\//.test(path) && entry.isFile() ? [path] : []
  })
  const read = (name: string): string => readFileSync(join(configDir, name), 'utf8')
  const ledger = files.includes('plugins/package.json')
    ? JSON.parse(read('plugins/package.json').replace(/"installedAt": \d+/g, '"installedAt": 0'))
    : {}
  const { disabled, trusted, permissions } = JSON.parse(read('extensions.json'))
  const { extensions } = (await host.api('GET', '/extensions')).body
  const tiny = extensions.find(({ id }: { id: string }) => id === 'tiny')
  const said = tiny && [tiny.version, tiny.state, tiny.why, tiny.permissions]
  return {
    files: files.sort(),
    ledger,
    disabled,
    trusted,
    permissions,
    said,
    answer: (await host.api('GET', '/ext/tiny')).body,
  }
}

/** Makes a host that is killed again and again while it does one operation; `withinMs` bounds each wait on a busy machine. */
export async function createKilling(operation: Operation, withinMs = 60_000): Promise<Killing> {
  const { prepared, path, version } = operations[operation]
  const shop = mkdtempSync(join(tmpdir(), 'svc-kill-shop-'))
  const configDir = mkdtempSync(join(tmpdir(), 'svc-kill-packages-'))
  const packages = await makePackages(shop)
  const begin = async (): Promise<HostProcess> => {
    const host = await serve({ configDir, withinMs, env: { SVC_SOURCE: 'software', SVC_MDNS: '0' } })
    const idle = ['on', 'off', 'failed', 'quarantined']
    const isOver = async () => {
      const { extensions } = (await host.api('GET', '/extensions')).body
      // What has just failed says why a moment later.
      const isIdle = ({ state, why }: { state: string; why: string | null }): boolean =>
        idle.includes(state) && (state !== 'failed' || why !== null)
      return extensions?.every(isIdle)
    }
    await until('the start to be over', isOver, withinMs)
    return host
  }
  // Whatever else there is only takes its time.
  const others = readdirSync(builtins).filter(id => !['discovery', 'plugins', 'registrations'].includes(id))
  writeFileSync(join(configDir, 'extensions.json'), JSON.stringify({ disabled: others }))
  let host = await begin()
  const decisions = { trust: true, grant: 'all' }
  const add = (v: string) => ({ spec: `file:${packages[v]}`, accept_unverified: true, ...decisions })
  const start = async (to: string, body: object): Promise<string> => {
    const answer = await host.api('POST', `/store/${to}`, body)
    if (answer.status !== 202)
      throw new Error(`${to} answered ${answer.status}: ${JSON.stringify(answer.body)}`)
    return answer.body.job
  }
  const finish = async (to: string, body: object): Promise<void> => {
    const id = await start(to, body)
    const ended = async () => {
      const job = (await host.api('GET', `/store/jobs/${id}`)).body
      return job.state === 'running' ? false : job
    }
    const { state, error } = await until('the operation', ended, withinMs)
    if (state !== 'done') throw new Error(`${to}: ${error}`)
  }
  const body = version === undefined ? { pkg } : add(version)
  const prepare = async () => {
    if ((await stateOf(host)).said) await finish('uninstall', { pkg })
    for (const each of prepared) await finish('install', add(each))
    return stateOf(host)
  }

  // So that what is remembered is written in full once, whatever comes.
  await host.api('PUT', '/extensions/logs', { enabled: false })
  const before = await prepare()
  const begun = performance.now()
  await finish(path, body)
  const tookMs = performance.now() - begun
  const after = await stateOf(host)
  return {
    async round(part) {
      const now = await prepare()
      if (!isDeepStrictEqual(now, before)) throw new Error(`it is not as before: ${JSON.stringify(now)}`)
      await start(path, body)
      const killedAfterMs = Math.round(part * tookMs)
      await sleep(killedAfterMs)
      await host.stop('SIGKILL')
      host = await begin()
      const found = await stateOf(host)
      if (isDeepStrictEqual(found, before)) return { found: 'before', killedAfterMs }
      if (isDeepStrictEqual(found, after)) return { found: 'after', killedAfterMs }
      throw new Error(
        `killed after ${killedAfterMs} ms, it is neither as before nor as after: ${JSON.stringify(found)}`,
      )
    },
    async end() {
      await host.stop()
      for (const folder of [shop, configDir]) rmSync(folder, { recursive: true, force: true })
    },
  }
}
