// The testing library itself: how little it takes to start a host, and a clock that only the test moves.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { defineExtension, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, until } from 'svc-host/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

const inline = (id: string, setup: Parameters<typeof defineExtension>[0]['setup']): InlineExtension => ({
  manifest: { id },
  extension: defineExtension({ setup }),
})

/** Counts by each kind of timer, and tells what time it has. */
const counting = `
  const count = { once: 0, each: 0, late: 0 }
  setTimeout(() => count.once++, 60_000)
  const each = setInterval(() => { if (++count.each === 3) clearInterval(each) }, 1000)
  AbortSignal.timeout(5000).addEventListener('abort', () => count.late++)
  ctx.route({ method: 'GET', path: '/ext/counter', id: 'getCount', summary: 'Counts', lanes: 'open',
    replies: { 200: z.object({ once: z.number(), each: z.number(), late: z.number(), now: z.number(), date: z.number() }) },
    handler: () => ({ ...count, now: Date.now(), date: new Date().getTime() }) })
`

async function writeCounter(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-counter-'))
  const manifest = {
    id: 'counter',
    version: '1.0.0',
    sdk: '^1.0.0',
    title: 'Counter',
    permissions: ['routes'],
  }
  await writeFile(join(folder, 'extension.json'), JSON.stringify({ ...manifest, main: 'index.mjs' }))
  await writeFile(
    join(folder, 'index.mjs'),
    `import { z } from 'zod'\nexport default { setup(ctx) { ${counting} } }\n`,
  )
  return folder
}

test.for(['kernel', 'isolate'] as const)(
  'time passes for an extension when the test says so: %s',
  async realm => {
    const folder = await writeCounter()
    const host = await startHost([folder], { realm, clock: 'fake' })
    try {
      const count = async () => (await host.inject('GET', '/ext/counter')).json
      const began = host.clock.now()
      await delay(30)
      expect(await count()).toMatchObject({ once: 0, each: 0, late: 0, now: began, date: began })
      await host.clock.advance(2500)
      expect(await count()).toMatchObject({
        once: 0,
        each: 2,
        late: 0,
        now: began + 2500,
        date: began + 2500,
      })
      await host.clock.advance(57_499)
      expect(await count()).toMatchObject({ once: 0, each: 3, late: 1 })
      await host.clock.advance(1)
      expect(await count()).toMatchObject({ once: 1, each: 3, late: 1, now: began + 60_000 })
      await expect(host.clock.advance(-1)).rejects.toThrow('give 0 or more')
      await expect(startHost([folder], { realm: 'process', clock: 'fake' })).rejects.toThrow('process realm')
    } finally {
      await host.stop()
      await rm(folder, { recursive: true })
    }
  },
)

test('the host’s own time goes on beside a fake clock, and comes back for everybody', async () => {
  const before = [setTimeout, Date, AbortSignal.timeout]
  let waited: Promise<string> | undefined
  const late = inline('late', ctx => {
    waited = delay(500, 'done')
    ctx.tap({ id: 'own.point', kind: 'series', onFailure: 'skip', limitMs: 20 }, () => new Promise(() => {}))
  })
  const owner = inline('owner', ctx => {
    const ask = ctx.hookPoint<object, undefined>({
      id: 'own.point',
      kind: 'series',
      onFailure: 'skip',
      limitMs: 20,
    })
    ctx.route(
      route({
        ...{ method: 'GET', path: '/own', id: 'own', summary: 'Asks', lanes: 'open' },
        replies: { 200: z.object({}) },
        handler: async () => (await ask({})) ?? {},
      }),
    )
  })
  const host = await startHost([owner, late], { clock: 'fake' })
  await expect(startHost([], { clock: 'fake' })).rejects.toThrow('has the fake clock')
  // The limit of a tap is the host's.
  expect((await host.inject('GET', '/own')).status).toBe(200)
  expect(
    await until('the tap to be given up', () => host.logs.find(({ msg }) => msg.includes('20 ms'))),
  ).toBeDefined()
  await host.clock.advance(500)
  expect(await waited).toBe('done')
  await host.stop()
  expect([setTimeout, Date, AbortSignal.timeout]).toEqual(before)
})

test('what a timer throws is the test’s to see', async () => {
  const broken = inline('broken', () => void setTimeout(() => JSON.parse('{'), 10))
  const host = await startHost([broken], { clock: 'fake' })
  await expect(host.clock.advance(10)).rejects.toThrow('JSON')
  await host.stop()
})

test('a host that cannot start leaves no folder', async () => {
  const { TMPDIR: before } = process.env
  const own = await mkdtemp(join(tmpdir(), 'svc-tmp-'))
  process.env['TMPDIR'] = own
  try {
    await expect(startHost([], { flags: { 'mgmt-bind': 'nonsense' } })).rejects.toThrow('nonsense')
    expect(await readdir(own)).toEqual([])
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    await rm(own, { recursive: true })
  }
})

test('one of the test’s own that does not come up is said at once', async () => {
  const folder = await writeCounter()
  try {
    await writeFile(join(folder, 'index.mjs'), 'export default { setup() { throw new Error("no luck") } }\n')
    await expect(startHost([folder])).rejects.toThrow('counter is failed: setup failed: no luck')
    const host = await startHost([folder], { mayBeOff: true })
    expect(host.extensions.list()).toMatchObject([{ id: 'counter', state: 'failed' }])
    await host.stop()
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a host is soon there', async ({ annotate }) => {
  const took: number[] = []
  for (let i = 0; i < 5; i++) {
    const began = performance.now()
    const host = await startHost([inline('hello', () => {})])
    took.push(performance.now() - began)
    expect(host.extensions.list()).toMatchObject([{ id: 'hello', state: 'on' }])
    expect(() => host.clock).toThrow("clock: 'fake'")
    await host.stop()
  }
  await annotate(`started in ${took.map(ms => Math.round(ms)).join(', ')} ms`)
})
