// Extensions behind a bridge, in isolates and in processes: the whole of `ctx` as the author wrote it, and what each refusal says.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineExtension, event, HttpError, hook, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
let host: TestHost | undefined
afterEach(async () => {
  await host?.stop()
  host = undefined
})
afterAll(() => guests.remove())

const Moved = event('piece.moved', z.object({ to: z.string(), at: z.number().optional() }))
const Judge = hook.waterfall<{ score: number; by: string[] }>('move.judge', { onFailure: 'skip' })
const Admit = hook.bail<{ who: string }, string>('player.admit', { onFailure: 'refuse', limitMs: 1000 })
interface Board {
  place(piece: string, square: { x: number; y: number }): Promise<number>
  clear(): Promise<void>
}
const Board = token<Board>('board.squares', '1.0.0', {
  place: { args: [z.string(), z.object({ x: z.number(), y: z.number().max(8) })], returns: z.number() },
  clear: { args: [] },
})
const Plain = token<{ now(): number }>('board.plain', '1.0.0')

let judge: (input: { score: number; by: string[] }) => Promise<{ score: number; by: string[] }>
let admit: (input: { who: string }) => Promise<string | undefined>
const placed: unknown[] = []
const table: InlineExtension = {
  manifest: { id: 'table', provides: { 'board.squares': '1.0.0', 'board.plain': '1.0.0' } },
  extension: defineExtension({
    setup(ctx) {
      judge = ctx.hookPoint(Judge)
      admit = ctx.hookPoint(Admit) as typeof admit
      ctx.provide(Plain, { now: () => 1 })
      ctx.provide(Board, {
        async place(piece, square) {
          if (piece === 'king') throw new Error('the king is placed already')
          return placed.push([piece, square])
        },
        async clear() {
          placed.length = 0
        },
      })
    },
  }),
}

const start = async (...extensions: (string | InlineExtension)[]): Promise<TestHost> => {
  host = await startHost({ extensions: [table, ...extensions], mayBeOff: true })
  return host
}
const of = (id: string) => host!.extensions.list().find(record => record.id === id)!
const lines = (id: string): string[] => host!.logs.filter(l => l.extension === id).map(({ msg }) => msg)

/** The author's code is the same in both. */
const inBoth = (name: string, run: (realm: string) => Promise<void>): void => {
  for (const realm of ['isolate', 'process']) test(`${name}: ${realm}`, { timeout: 60_000 }, () => run(realm))
}

inBoth('events, hooks, services and storage cross both ways, checked and copied', async realm => {
  const folder = await guests.write(
    'guest',
    `const Moved = event('piece.moved', z.object({ to: z.string() }))
const Won = event('guest.won', z.object({ by: z.string(), points: z.number().int() }))
const Judge = hook.waterfall('move.judge', { onFailure: 'skip' })
const Admit = hook.bail('player.admit', { onFailure: 'refuse' })
const Board = token('board.squares', '1.0.0')
export default defineExtension({
  deps: { board: Board },
  async setup(ctx, { board }) {
    ctx.on(Moved, async ({ to, seq }) => {
      const count = await board.place('pawn', { x: 1, y: 2 })
      await ctx.storage.set('last', { to, count })
      ctx.emit(Won, { by: to, points: count })
      ctx.log.info('moved to ' + to, { count, seq })
    })
    ctx.tap(Judge, ({ score, by }) => ({ score: score + 1, by: [...by, 'guest'] }))
    ctx.tap(Admit, ({ who }) => {
      if (who === 'mallory') throw new HttpError(403, 'mallory may not play')
      if (who === 'eve') throw new Error('eve broke it')
    })
    const bad = [() => board.place('pawn', { x: 1, y: 9 }), () => board.place('king', { x: 1, y: 1 }), () => board.none?.()]
    ctx.log.info('refused: ' + (await Promise.all(bad.map(async f => { try { return await f() } catch (e) { return e.message } }))).join(' | '))
    ctx.log.info('kept: ' + JSON.stringify(await ctx.storage.get('last')))
  },
})`,
    { requires: { 'board.squares': '^1.0.0' }, realm },
  )
  placed.length = 0
  await start(folder)
  expect(of('guest')).toMatchObject({ state: 'on', why: null, realm })
  expect(lines('guest')[0]).toBe(
    'refused: service board.squares, place: argument 2: Too big: expected number to be <=8 | the king is placed already | ',
  )
  host!.emit(Moved, { to: 'e4' })
  await expect.poll(() => lines('guest')).toContain('moved to e4')
  expect(placed).toEqual([['pawn', { x: 1, y: 2 }]])
  expect(host!.events().find(({ kind }) => kind === 'guest.won')).toMatchObject({ by: 'e4', points: 1 })
  expect(await judge({ score: 1, by: [] })).toEqual({ score: 2, by: ['guest'] })
  expect(await admit({ who: 'alice' })).toBeUndefined()
  await expect(admit({ who: 'mallory' })).rejects.toThrow(new HttpError(403, 'mallory may not play'))
  await expect(admit({ who: 'eve' })).rejects.toThrow('[guest] hook player.admit: eve broke it')
  await host!.extensions.enable('guest', false)
  expect(await judge({ score: 1, by: [] })).toEqual({ score: 1, by: [] })
  await host!.extensions.enable('guest', true)
  expect(lines('guest').at(-2)).toBe('kept: {"to":"e4","count":1}')
})

inBoth('a service is used from another realm and the kernel’s, and leaves with its provider', async realm => {
  const Words = token<{ join(words: string[]): Promise<string> }>('words.join', '1.0.0')
  const declare = `const Words = token('words.join', '1.0.0', { join: { args: [z.array(z.string()).max(3)], returns: z.string().max(9) } })\n`
  const giver = await guests.write(
    'giver',
    `${declare}export default defineExtension({ setup(ctx) { ctx.provide(Words, { join: async words => words.join('-') }) } })`,
    { provides: { 'words.join': '1.0.0' }, realm },
  )
  const taker = await guests.setup(
    'taker',
    `ctx.using(token('words.join', '1.0.0'), async (words, sub) => {
  ctx.log.info('have ' + await words.join(['a', 'b']))
  await sub.effect('remember', () => () => ctx.log.info('gone'))
  sub.signal.addEventListener('abort', () => ctx.log.info('going'))
})`,
    { optional: { 'words.join': '^1.0.0' } },
  )
  await start(giver, taker)
  expect(lines('taker')).toContain('have a-b')
  const words = host!.service(Words)!
  expect(await words.join(['x', 'y'])).toBe('x-y')
  await expect(words.join(['a', 'b', 'c', 'd'])).rejects.toThrow('Too big')
  await expect(words.join(['long', 'longer'])).rejects.toThrow('Too big')
  await host!.extensions.enable('giver', false)
  expect(lines('taker').slice(-2)).toEqual(['going', 'gone'])
  expect(of('taker').state).toBe('on')
  await host!.extensions.enable('giver', true)
  await expect.poll(() => lines('taker').filter(line => line === 'have a-b').length).toBe(2)
})

test('where a missing word is a no, nobody slips in while one who has a say is away', {
  timeout: 60_000,
}, async () => {
  const sentry = await guests.setup(
    'sentry',
    `if (await ctx.storage.get('broken')) throw new Error('broken for good')
ctx.tap(hook.bail('player.admit', { onFailure: 'refuse' }), ({ who }) => {
  if (who === 'mallory') throw new HttpError(403, 'mallory may not play')
})
ctx.on(event('piece.moved', z.object({ to: z.string() })), async ({ to }) => {
  if (to === 'the grave') await ctx.storage.set('broken', true)
  for (;;);
})`,
    { permissions: ['hooks:player.admit', 'events:piece.moved'] },
  )
  await start(sentry)
  const mallory = () =>
    admit({ who: 'mallory' }).then(
      () => 'in',
      (error: Error) => error.message,
    )
  /** What becomes of those who try until the sentry is there again, or is not going to be. */
  const tries = async (to: string, state: string): Promise<string[]> => {
    const { restarts } = of('sentry')
    host!.emit(Moved, { to })
    const answers: string[] = []
    do {
      answers.push(await mallory())
      await new Promise(done => setImmediate(done))
    } while (of('sentry').restarts === restarts || of('sentry').state !== state)
    return answers
  }
  expect(await mallory()).toBe('mallory may not play')
  const answers = await tries('the wall', 'on')
  expect(answers).not.toContain('in')
  expect(await admit({ who: 'alice' })).toBeUndefined()
  expect(await tries('the grave', 'failed')).not.toContain('in')
  const why = 'sentry has a say at player.admit and is failed: setup failed: broken for good'
  expect(await mallory()).toBe(`${why}; switch it off to go on without it`)
  await host!.extensions.enable('sentry', false)
  expect(await mallory()).toBe('in')
  // From the start on: what it asks for says that it has a say.
  await host!.extensions.enable('sentry', true)
  expect(of('sentry').state).toBe('failed')
  expect(await mallory()).toContain(why)
})

inBoth('timers, signals, scopes and effects live and end as they do in the host', async realm => {
  const folder = await guests.setup(
    'clockwork',
    `await ctx.effect('first', () => { ctx.log.info('+first'); return () => ctx.log.info('-first') })
await ctx.effect('second', async () => async () => { await new Promise(done => setTimeout(done, 5)); ctx.log.info('-second') })
const inner = ctx.scope('inner')
await inner.effect('inside', () => () => ctx.log.info('-inside'))
let ticks = 0
const timer = setInterval(() => { ticks += 1; if (ticks === 3) { clearInterval(timer); ctx.log.info('three') } }, 5)
const never = setTimeout(() => ctx.log.info('never'), 50); clearTimeout(never)
ctx.signal.addEventListener('abort', () => ctx.log.info('aborted ' + ctx.signal.aborted))
ctx.route(
  route({ method: 'POST', path: '/ext/clockwork/close', summary: 'c', lanes: admin, replies: { 204: null },
    async handler() { await inner.close(); return reply(204) } }),
  route({ method: 'GET', path: '/ext/clockwork/wait', summary: 'w', lanes: admin, replies: { 200: z.object({}) },
    handler: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => { ctx.log.info('caller gone'); reject(new Error('x')) })) }))`,
    { realm },
  )
  await start(folder)
  await expect.poll(() => lines('clockwork')).toContain('three')
  await expect.poll(() => of('clockwork').memory_bytes, { timeout: 5000 }).toBeGreaterThan(1e6)
  expect(of('clockwork').cpu_ms).toBeGreaterThan(0)
  expect(of('table')).toMatchObject({ restarts: 0, cpu_ms: null, memory_bytes: null })
  expect((await host!.inject('POST', '/ext/clockwork/close')).status).toBe(204)
  expect(lines('clockwork')).toContain('-inside')
  const controller = new AbortController()
  const waiting = host!.inject('GET', '/ext/clockwork/wait', { signal: controller.signal }).catch(() => 'cut')
  await new Promise(done => setTimeout(done, 100))
  controller.abort()
  expect(await waiting).toBe('cut')
  await expect.poll(() => lines('clockwork')).toContain('caller gone')
  expect(of('clockwork').effects.filter(label => !label.startsWith('route'))).toEqual([
    realm,
    'timers',
    'first',
    'second',
  ])
  await host!.extensions.enable('clockwork', false)
  expect(lines('clockwork').slice(-4)).toEqual(['aborted true', '-second', '-first', 'off: is switched off'])
  expect(lines('clockwork')).not.toContain('never')
})

test('what the realm cannot do is said where it is asked for, with what to do instead', async () => {
  const routeWith = (more: string): string =>
    `ctx.route(route({ method: 'GET', path: '/x', summary: 'x', lanes: admin, replies: { 200: z.object({}) }, handler: () => ({}), ${more} }))`
  const cases: Record<string, [body: string, why: RegExp, manifest?: object]> = {
    durable: [
      "await ctx.durable('k', {}, () => {})",
      /ctx\.durable is not there in the isolate realm; .*"realm": "process"/,
    ],
    process: ["await ctx.process('p', { command: 'x' })", /ctx\.process is not there/],
    document: ["await ctx.document('d', z.object({}))", /use ctx\.storage/],
    stream: [
      routeWith("stream: 'text/plain'"),
      /route GET \/x: stream, upgrade and absolute cannot leave its realm/,
    ],
    absolute: [routeWith('absolute: true'), /stream, upgrade and absolute/],
    plain: [
      "ctx.provide(token('my.service', '1.0.0'), { greet: async () => 1 })",
      /service my\.service cannot leave its realm: write token\('my\.service', '1\.0\.0', \{ greet: \{ args/,
      { provides: { 'my.service': '1.0.0' } },
    ],
    using: [
      "ctx.using(token('board.plain', '1.0.0'), () => {})",
      /^$/,
      { optional: { 'board.plain': '^1.0.0' } },
    ],
    spoof: [
      "ctx.emit(event('host.stopping', z.object({})), {})",
      /event "host\.stopping" is not its own; name it "spoof\.…"/,
    ],
    point: [
      "ctx.hookPoint(hook.bail('player.admit', { onFailure: 'skip' }))",
      /hook point "player\.admit" is not its own/,
    ],
    schema: [
      "ctx.route(route({ method: 'GET', path: '/x', summary: 'x', lanes: admin, replies: { 200: z.date() }, handler: () => 0 }))",
      /route GET \/x, reply 200 cannot be described as JSON Schema/,
    ],
    fetches: [
      "await fetch('https://example.org')",
      /does not ask for network:example\.org:443; name it in "permissions"/,
    ],
    undeclared: ["await ctx.storage.set('__proto__', 1)", /a key of storage is/],
    secret: [
      "ctx.route(route({ method: 'GET', path: '/x', summary: 'x', lanes: 'everybody', replies: { 200: z.object({}) }, handler: () => ({}) }))",
      /route GET \/x: lanes is wrong; write 'open', 'loopback' or \{ plugin: /,
    ],
    bare: [
      "ctx.route({ method: 'GET', path: '/x', replies: {}, handler: () => ({}) })",
      /route GET \/x: summary is missing; expected string; lanes is missing; write 'open'/,
    ],
  }
  const folders = await Promise.all(
    Object.entries(cases).map(([id, [body, , manifest]]) => guests.setup(id, body, manifest)),
  )
  folders.push(
    await guests.write('importer', "import 'node:fs'\nexport default defineExtension({ setup() {} })"),
  )
  folders.push(await guests.write('nothing', 'export const x = 1'))
  folders.push(await guests.write('thrower', "throw new Error('at the top')"))
  await start(...folders)
  for (const [id, [, why]] of Object.entries(cases)) {
    if (id === 'using') continue
    expect(of(id), id).toMatchObject({ state: 'failed' })
    expect(of(id).why, id).toMatch(why)
    expect(of(id).effects, id).toEqual([])
  }
  expect(of('importer').why).toContain('./index.js imports "node:fs", which this realm does not have')
  expect(of('nothing').why).toContain('no default export made by defineExtension')
  expect(of('thrower').why).toContain('at the top')
  // An optional service that cannot cross costs nothing but itself.
  expect(of('using')).toMatchObject({ state: 'on' })
  expect(lines('using').join()).toMatch(
    /service board\.plain of table describes no methods.*describe them in its token/,
  )
})

test('kill -9 of the host leaves no sandbox', { timeout: 60_000 }, async () => {
  const configDir = await mkdtemp(join(tmpdir(), 'svc-isolates-'))
  const folder = await guests.setup('stranger', "ctx.log.info('inside')", { permissions: [] })
  const installed = join(configDir, 'plugins', '.versions', 'stranger', '1.0.0')
  await cp(folder, installed, { recursive: true })
  await writeFile(join(configDir, 'plugins', 'package.json'), '{"dependencies": {"stranger": "1.0.0"}}')
  const main = fileURLToPath(new URL('../../kernel/main.ts', import.meta.url))
  const flags = ['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning']
  const bind = ['--mgmt-bind', '127.0.0.1:0', '--native-port', '0', '--config-dir', configDir]
  const env = { PATH: process.env['PATH'], SVC_SOURCE: 'software', SVC_MDNS: '0' }
  const child = spawn(process.execPath, [...flags, main, 'serve', ...bind], { env })
  const ended = once(child, 'exit')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += data))
  const below = (pid: number): number[] => {
    const file = `/proc/${pid}/task/${pid}/children`
    const children = existsSync(file) ? readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number) : []
    return children.flatMap(each => [each, ...below(each)])
  }
  const isSandbox = (pid: number): boolean =>
    existsSync(`/proc/${pid}`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sandbox-main')
  try {
    await expect.poll(() => output, { timeout: 30_000 }).toContain('"extension":"stranger","msg":"inside"')
    const sandboxes = below(child.pid!).filter(isSandbox)
    expect(sandboxes.length).toBeGreaterThan(0)
    child.kill('SIGKILL')
    await ended
    await expect.poll(() => sandboxes.filter(isSandbox), { timeout: 5000 }).toEqual([])
  } finally {
    child.kill('SIGKILL')
    await rm(configDir, { recursive: true })
  }
})
