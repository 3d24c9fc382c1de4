// kill -9 in the middle of installing, updating and removing: the next start finds the state before or the one after,
// never one between, and nothing else.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type HostProcess, serve, until } from '../harness/host.ts'
import { packFolder, writePackage } from '../harness/packages.ts'
import { seeded } from '../soak/random.ts'

let shop: string
let configDir: string
let hosts: HostProcess[]
const packed: Record<string, string> = {}

beforeAll(async () => {
  shop = mkdtempSync(join(tmpdir(), 'svc-chaos-shop-'))
  for (const version of ['1.0.0', '2.0.0']) {
    // Large enough for the moments to fall into each step.
    const files = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => [`page-${i}.txt`, `${i} `.repeat(20_000)]),
    )
    const setup = `const note = await ctx.document('note.json', z.object({}).loose()); await note.write({ by: '${version}' })`
    const folder = writePackage(shop, 'tiny', { version, setup, files, importsSdk: true })
    packed[version] = await packFolder(folder, join(shop, `${version}.tgz`))
  }
})
afterAll(() => rmSync(shop, { recursive: true }))
beforeEach(() => {
  configDir = mkdtempSync(join(tmpdir(), 'svc-chaos-packages-'))
  hosts = []
})
afterEach(async () => {
  for (const host of hosts) await host.stop()
  rmSync(configDir, { recursive: true, force: true })
})

const begin = async (): Promise<HostProcess> => {
  const host = await serve({ configDir, env: { SVC_SOURCE: 'software', SVC_MDNS: '0' } })
  hosts.push(host)
  return host
}
const start = async (host: HostProcess, path: string, body: object): Promise<() => Promise<string>> => {
  const { status, body: reference } = await host.api('POST', `/store/${path}`, body)
  expect(status).toBe(202)
  return async () => (await host.api('GET', `/store/jobs/${reference.job}`)).body.state
}
const finish = async (host: HostProcess, path: string, body: object): Promise<void> => {
  const state = await start(host, path, body)
  expect(await until('the operation', async () => ((await state()) === 'running' ? false : state()))).toBe(
    'done',
  )
}
const add = (version: string) => ({ spec: `file:${packed[version]}`, accept_unverified: true, trust: true })

/** All that a package operation may leave: files with their sizes, what is remembered, what the API says. */
async function stateOf(host: HostProcess) {
  const files = readdirSync(configDir, { recursive: true, withFileTypes: true }).flatMap(entry => {
    const path = join(entry.parentPath, entry.name).slice(configDir.length + 1)
    return /^(plugins|plugin-state|extension-config)\//.test(path) && entry.isFile() ? [path] : []
  })
  const ledger = files.includes('plugins/package.json')
    ? JSON.parse(
        readFileSync(join(configDir, 'plugins/package.json'), 'utf8').replace(
          /"installedAt": \d+/g,
          '"installedAt": 0',
        ),
      )
    : {}
  const { disabled, trusted } = JSON.parse(readFileSync(join(configDir, 'extensions.json'), 'utf8'))
  const { extensions } = (await host.api('GET', '/extensions')).body
  const tiny = extensions.find(({ id }: { id: string }) => id === 'tiny')
  const answer = await host.api('GET', '/tiny')
  return {
    files: files.sort(),
    ledger,
    disabled,
    trusted,
    tiny: tiny && [tiny.version, tiny.state, tiny.why],
    answer: answer.body,
  }
}

type State = Awaited<ReturnType<typeof stateOf>>
/** The state once everything that starts has started, and what a crash has left is away. */
const settled = async (host: HostProcess): Promise<State> => {
  await until('the start to be over', async () => {
    const { extensions } = (await host.api('GET', '/extensions')).body
    return extensions?.every(({ state }: { state: string }) => !['starting', 'waiting'].includes(state))
  })
  return stateOf(host)
}

const pkg = 'svc-plugin-tiny'
const operations = {
  install: { prepared: [], path: 'install', body: () => add('1.0.0'), withinMs: 350 },
  update: { prepared: ['1.0.0'], path: 'install', body: () => add('2.0.0'), withinMs: 350 },
  uninstall: { prepared: ['1.0.0', '2.0.0'], path: 'uninstall', body: () => ({ pkg }), withinMs: 80 },
}
const random = seeded(20_261_122)

test.each(Object.entries(operations))(
  'killed while it does %s, at five moments by a seed',
  async (_name, { prepared, path, body, withinMs }) => {
    let host = await begin()
    // So that what is remembered is written once, whatever comes.
    await host.api('PUT', '/extensions/logs', { enabled: false })
    const prepare = async (): Promise<State> => {
      if ((await stateOf(host)).tiny) await finish(host, 'uninstall', { pkg })
      for (const version of prepared) await finish(host, 'install', add(version))
      return stateOf(host)
    }
    const before = await prepare()
    await finish(host, path, body())
    const after = await stateOf(host)
    expect(after).not.toEqual(before)

    for (let round = 0; round < 5; round++) {
      expect(await prepare()).toEqual(before)
      await start(host, path, body())
      await sleep(Math.round(random() * withinMs))
      host.child.kill('SIGKILL')
      await until('the host to be gone', () => host.child.signalCode === 'SIGKILL')
      host = await begin()
      const found = await settled(host)
      expect(found).toEqual(JSON.stringify(found) === JSON.stringify(before) ? before : after)
    }
  },
)
