// Extensions in processes of their own: Node at hand, the host's API by their token, and what becomes of them when they break.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineExtension, event, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
let host: TestHost | undefined
let configDir: string | undefined
const path = process.env['PATH']
afterEach(async () => {
  process.env['PATH'] = path
  await host?.stop()
  host = undefined
  if (configDir) await rm(configDir, { recursive: true })
  configDir = undefined
})
afterAll(() => guests.remove())

const of = (id: string) => host!.extensions.list().find(record => record.id === id)!
const lines = (id: string): string[] => host!.logs.filter(l => l.extension === id).map(({ msg }) => msg)
const inProcess = (id: string, body: string, permissions: readonly string[] = []): Promise<string> =>
  guests.write(
    id,
    `import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'svc-host/client'
export default defineExtension({ async setup(ctx) {\n${body}\n} })`,
    { realm: 'process', permissions },
  )

test('what breaks in a process is told, and a process that has ended starts again', {
  timeout: 60_000,
}, async () => {
  const folder = await inProcess(
    'clumsy',
    `const again = existsSync('/state/again')
ctx.log.info(again ? 'again' : 'first')
console.log('printed'); console.error('complained')
await ctx.effect('mark', () => () => ctx.log.info('undone'))
ctx.on(event('break.timer', z.object({})), () => void setTimeout(() => { throw new Error('nobody caught this') }))
ctx.on(event('break.process', z.object({})), () => { writeFileSync('/state/again', ''); process.exit(7) })`,
    ['events:break.*'],
  )
  host = await startHost([folder])
  const uncaught = 'an error that nobody caught: Error: nobody caught this'
  host.emit(event('break.timer', z.object({})), {})
  await expect.poll(() => lines('clumsy').join(), { timeout: 20_000 }).toContain(uncaught)
  expect(of('clumsy')).toMatchObject({ state: 'on', restarts: 0 })
  host.emit(event('break.process', z.object({})), {})
  await expect.poll(() => of('clumsy').restarts, { timeout: 20_000 }).toBe(1)
  await expect.poll(() => of('clumsy'), { timeout: 20_000 }).toMatchObject({ state: 'on', why: null })
  const told = lines('clumsy').join(' / ')
  expect(told).toMatch(/first.*its process: ended with 7.*its process has ended.*again/s)
  for (const line of ['printed', 'complained']) expect(lines('clumsy')).toContain(line)
  await expect.poll(() => of('clumsy').memory_bytes).toBeGreaterThan(10e6)
  expect(of('clumsy').cpu_ms).toBeGreaterThan(50)
  await host.extensions.enable('clumsy', false)
  expect(lines('clumsy').slice(-2)[0]).toBe('undone')
  expect(of('clumsy')).toMatchObject({ state: 'off', effects: [], memory_bytes: null })

  await host.extensions.enable('clumsy', true)
  await host.extensions.enable('runner', false)
  expect(of('clumsy')).toMatchObject({
    state: 'waiting',
    why: 'needs service realm.process ^1.0.0 of runner, which is switched off',
  })
  await host.extensions.enable('runner', true)
  expect(of('clumsy').state).toBe('on')
})

const stand: InlineExtension = {
  manifest: { id: 'stand' },
  extension: defineExtension({
    setup(ctx) {
      const open = {
        method: 'GET',
        summary: 's',
        replies: { 200: z.object({ id: z.string().nullable() }) },
      } as const
      const lanes = { plugin: 'all', device: false } as const
      const handler = ({ caller }: { caller: unknown }) => ({ id: (caller as { id: string | null }).id })
      ctx.route(
        route({ ...open, path: '/stand', tag: 'status', lanes, handler }),
        route({ ...open, path: '/closed', tag: 'library', lanes, handler }),
      )
    },
  }),
}

test('the API is reached by its own token, and hosts that were granted through the proxy', {
  timeout: 60_000,
}, async () => {
  const server = createServer((_, answer) => answer.end('from outside')).listen(0, '127.0.0.1')
  await new Promise(done => server.once('listening', done))
  const { port } = server.address() as AddressInfo
  const folder = await inProcess(
    'caller',
    `ctx.route(route({ method: 'GET', path: '/ext/caller', summary: 'c', lanes: admin, replies: { 200: z.object({ told: z.array(z.string()) }) },
  async handler() {
    const api = await connect()
    const attempt = work => work.then(value => JSON.stringify(value), error => error.code ?? error.message)
    const told = []
    for (const path of ['/stand', '/closed', '/extensions']) told.push(path + ' ' + await attempt(api.request('GET', path)))
    api.close()
    return { told: [...told, await (await fetch('http://127.0.0.1:${port}/')).text()] }
  } }))`,
    ['routes', 'api:status', `network:127.0.0.1:${port}`],
  )
  configDir = await mkdtemp(join(tmpdir(), 'svc-processes-'))
  await mkdir(join(configDir, 'plugin-run'))
  const tokens = JSON.stringify({ caller: 'f'.repeat(64) })
  await writeFile(join(configDir, 'plugin-run', 'plugin-tokens.json'), tokens)
  try {
    host = await startHost(['registrations', stand, folder], { configDir })
    expect(of('caller')).toMatchObject({ state: 'on', why: null })
    const { json } = await host.inject('GET', '/ext/caller')
    expect(json?.told).toEqual([
      '/stand {"id":"caller"}',
      '/closed refused',
      '/extensions refused',
      'from outside',
    ])
  } finally {
    server.close()
  }
})

test('without bubblewrap it is refused, unless it is trusted by name', { timeout: 120_000 }, async () => {
  const body = `ctx.log.info('runs as ' + process.getuid() + ' ' + existsSync(process.env.SVC_MGMT_CA))`
  const [wild, known] = [await inProcess('wild', body), await inProcess('known', body)]
  configDir = await mkdtemp(join(tmpdir(), 'svc-processes-'))
  await writeFile(join(configDir, 'extensions.json'), JSON.stringify({ trusted: ['known'] }))
  process.env['PATH'] = '/nowhere'
  host = await startHost([wild, known], { configDir, mayBeOff: true })
  expect(of('wild')).toMatchObject({ state: 'failed', effects: [] })
  expect(of('wild').why).toMatch(/bubblewrap is missing.*apt install bubblewrap/)
  expect(of('known')).toMatchObject({ state: 'on', effects: ['process without walls', 'timers'] })
  expect(lines('known').join()).toMatch(/runs as [1-9]\d* true/)
})
