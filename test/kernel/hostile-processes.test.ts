// Hostile packages with Node at hand: what each tries ends at its walls, and host, neighbour and machine are as they were.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, expect, test } from 'vitest'
import { effectsOf } from '../harness/effects.ts'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
let host: TestHost | undefined
let listener: Server | undefined
afterEach(async () => {
  listener?.close()
  await host?.stop()
  host = undefined
})
afterAll(() => guests.remove())

const of = (id: string) => host!.extensions.list().find(record => record.id === id)!
const lines = (id: string): string[] => host!.logs.filter(l => l.extension === id).map(({ msg }) => msg)
const isWell = async (): Promise<void> => {
  expect((await host!.inject('GET', '/extensions')).status).toBe(200)
  expect(of('calm')).toMatchObject({ state: 'on', restarts: 0 })
  expect((await host!.inject('GET', '/ext/calm')).json).toEqual({ value: 'calm' })
}
/** Command lines on this machine that hold this text. */
const commands = (text: string): string[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(pid => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')]
      } catch {
        return []
      }
    })
    .filter(command => command.includes(text))

const serves = (id: string, body: string): string =>
  `ctx.route(route({ method: 'GET', path: '/ext/${id}', summary: 'a', lanes: admin, replies: { 200: z.object({ value: z.json() }) },
  handler: async () => { ${body} } }))`
const attacker = (id: string, body: string, granted: readonly string[] = []): Promise<string> =>
  guests.write(
    id,
    `import * as fs from 'node:fs'
import * as net from 'node:net'
import { spawn, spawnSync } from 'node:child_process'
import { connect } from 'svc-host/client'
const attempt = async fn => { try { return await fn() } catch (e) { return e.code || e.cause?.code || e.name } }
export default defineExtension({ async setup(ctx) {\n${body}\n} })`,
    { realm: 'process', permissions: ['routes', ...granted] },
  )
const calm = (): Promise<string> => attacker('calm', serves('calm', "return { value: 'calm' }"))

const connecting = `const connecting = (...to) => new Promise((done, failed) => {
  const socket = net.connect(...to, () => { socket.destroy(); done('connected') }); socket.setTimeout(2000, () => socket.destroy(new Error('late')))
  socket.on('error', failed) })`

/** What is tried, and what comes of it; `$name` stands for what only the test knows. */
const probes: Record<string, [code: string, expected: unknown]> = {
  'the password file': [`fs.readFileSync('/etc/shadow', 'utf8')`, 'ENOENT'],
  'the config folder, in one that was granted': [`fs.readdirSync('$config')`, []],
  'what was granted': [`fs.readFileSync('$config/../beside', 'utf8')`, 'to be read'],
  'writing where only reading was granted': [`fs.writeFileSync('$config/../beside', '')`, 'EROFS'],
  'the token of the operator': [`fs.readFileSync('$config/mgmt-token', 'utf8')`, 'ENOENT'],
  'what another keeps': [`fs.readdirSync('$config/plugin-state/other')`, 'ENOENT'],
  'all that is anywhere': [
    `fs.readdirSync('/').filter(name => /home|root|var|sys|boot|opt|media/.test(name))`,
    [],
  ],
  'processes outside': [`fs.readdirSync('/proc').filter(name => /^\\d+$/.test(name)).length < 5`, true],
  'secrets of processes': [
    `fs.readdirSync('/proc').filter(name => /^\\d+$/.test(name)).some(pid => { try { return /$token/.test(fs.readFileSync('/proc/' + pid + '/environ', 'latin1') + fs.readFileSync('/proc/' + pid + '/cmdline', 'latin1')) } catch { return false } })`,
    false,
  ],
  'the root of another': [`fs.readdirSync('/proc/1/root/etc').length < 5`, 'EACCES'],
  'the host itself': [`await connecting($port, '127.0.0.1')`, 'ECONNREFUSED'],
  'a listener on every address': [`await connecting($open, '127.0.0.1')`, 'ECONNREFUSED'],
  'this machine by its address': [`await connecting($open, '$address')`, 'ENETUNREACH'],
  'a socket without a file': [`await connecting('\\0svc-test-$open')`, 'ECONNREFUSED'],
  'a host that was not granted': [`(await fetch('http://$address:$open')).status`, 'TypeError'],
  'the API without a token': [
    `await connect().then(api => api.request('GET', '/extensions'))`,
    'unauthorized',
  ],
  'a signal to the host': [`process.kill($pid, 'SIGKILL')`, 'ESRCH'],
  'its own folder': [`fs.writeFileSync('/package/index.js', '')`, 'EROFS'],
  'what it runs on': [`fs.writeFileSync(process.execPath, '')`, 'EROFS'],
  'the SDK': [`fs.writeFileSync('/svc-host/sdk/index.ts', '')`, 'EROFS'],
  'a new folder': [`fs.mkdirSync('/mine')`, 'EROFS'],
  'root in a namespace of its own': [
    `spawnSync('/usr/bin/unshare', ['--user', '--map-root-user', process.execPath, '-e', "const fs = require('fs'); try { fs.writeFileSync('/package/x', '') } catch (e) { process.stdout.write(e.code) }"]).stdout.toString()`,
    'EROFS',
  ],
  'a fork bomb': [
    `new Promise(done => { let born = 0; const all = []; const more = () => { for (let i = 0; i < 200; i++) { const child = spawn('/usr/bin/unshare', ['--version']); child.on('error', () => {}); if (child.pid) { born++; all.push(child) } } for (const child of all) child.kill('SIGKILL'); done(born > 5 && born < 128) }; more() })`,
    true,
  ],
  'a file without end': [`fs.ftruncateSync(fs.openSync('/state/big', 'w'), 2 ** 30)`, 'EFBIG'],
  'memory by files': [`fs.writeFileSync('/tmp/big', Buffer.alloc(70 * 2 ** 20))`, 'ENOSPC'],
  'what it may': [`fs.writeFileSync('/state/own', 'x') ?? fs.readFileSync('/state/own', 'utf8')`, 'x'],
}

test('what lies outside is neither seen nor touched', { timeout: 120_000 }, async () => {
  const outer = await mkdtemp(join(tmpdir(), 'svc-hostile-'))
  await chmod(outer, 0o755)
  listener = createServer(socket => socket.end()).listen(0, '0.0.0.0')
  await once(listener, 'listening')
  const open = (listener.address() as { port: number }).port
  const abstract = createServer(socket => socket.end()).listen(`\0svc-test-${open}`)
  const address = Object.values(networkInterfaces())
    .flatMap(each => each ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
  const spy = await attacker(
    'spy',
    `${connecting}
ctx.route(route({ method: 'POST', path: '/ext/spy', summary: 'a', lanes: admin, body: z.record(z.string(), z.string()),
  replies: { 200: z.looseObject({}) }, async handler({ body }) {
    const found = {}
    const Run = (async () => {}).constructor
    for (const [name, code] of Object.entries(body)) {
      const run = new Run('fs', 'spawn', 'spawnSync', 'connect', 'connecting', code)
      found[name] = await attempt(() => run(fs, spawn, spawnSync, connect, connecting))
    }
    return found
  } }))`,
    [`read:${outer}`],
  )
  await writeFile(join(outer, 'beside'), 'to be read')
  const configDir = join(outer, 'config')
  await mkdir(configDir, { mode: 0o700 })
  host = await startHost([spy, await calm()], { configDir })
  const { adminToken, port } = host
  await mkdir(join(configDir, 'plugin-state', 'other'), { recursive: true })
  await writeFile(join(configDir, 'plugin-state', 'other', 'storage.json'), '{}')
  const known: Record<string, unknown> = {
    config: configDir,
    token: adminToken,
    pid: process.pid,
    port,
    open,
  }
  const tried = Object.fromEntries(
    Object.entries(probes).map(([name, [code]]) => [
      name,
      `return ${code}`.replaceAll(/\$(\w+)/g, (_, key) =>
        String(key === 'address' ? (address ?? '192.0.2.1') : known[key]),
      ),
    ]),
  )
  const { status, json } = await host.inject('POST', '/ext/spy', { body: tried })
  abstract.close()
  expect(status, lines('spy').join(' / ')).toBe(200)
  const expected = Object.fromEntries(Object.entries(probes).map(([name, [, value]]) => [name, value]))
  expect(json).toEqual(expected)
  await isWell()
  expect(of('spy')).toMatchObject({ state: 'on', restarts: 0 })
  expect(lines('spy').join()).toMatch(/has not been granted network:/)
  await host.stop()
  host = undefined
  await rm(outer, { recursive: true })
})

/** What each does to itself in the end, and what is said of it. */
const ends: Record<string, [body: string, why: RegExp]> = {
  'a memory bomb': [
    `setInterval(() => (globalThis.kept ??= []).push(Buffer.alloc(32 * 2 ** 20, 1)), 10)`,
    /took over 512 MB of memory|ended with/,
  ],
  'no sign of life': ['for (;;);', /ran for over 3000 ms at a stretch|did not answer for 30000 ms/],
  'a length over all limits': [
    'fs.writeSync(3, Buffer.alloc(17, 255))',
    /a packet of 4294967295 bytes came over the bridge/,
  ],
  'a message of no shape': [
    `const text = '[["do", -1, {}]]', head = Buffer.alloc(17); head.writeUInt32LE(text.length); head[4] = 12; fs.writeSync(3, head); fs.writeSync(3, text)`,
    /it said something that the bridge does not know/,
  ],
  'a leave without a word': ['process.exit(3)', /ended with 3/],
  'a kill of all that it reaches': [
    `try { process.kill(-1, 'SIGKILL') } catch {} process.kill(process.pid, 'SIGKILL')`,
    /ended with/,
  ],
}

test('whoever grows, hangs, lies or leaves is ended and starts again, and nothing stays behind', {
  timeout: 120_000,
}, async () => {
  const names = Object.keys(ends)
  const idOf = (name: string): string => name.replaceAll(' ', '-')
  const folders = names.map(name =>
    attacker(
      idOf(name),
      serves(idOf(name), `setTimeout(() => { ${ends[name]![0]} }, 20); return { value: 1 }`),
    ),
  )
  host = await startHost([await calm(), ...(await Promise.all(folders))], { mayBeOff: true })
  const { configDir } = host
  for (const name of names) await host.inject('GET', `/ext/${idOf(name)}`)
  for (const [name, [, why]] of Object.entries(ends)) {
    const isBack = () => of(idOf(name)).restarts > 0 && of(idOf(name)).state === 'on'
    await expect.poll(isBack, { timeout: 60_000, message: name }).toBe(true)
    expect(lines(idOf(name)).join(' / '), name).toMatch(why)
  }
  await isWell()
  const { stop } = host
  host = undefined
  await stop()
  expect(commands(configDir)).toEqual([])
})

test('what it has started ends with it, however well it hides', { timeout: 120_000 }, async () => {
  const mark = `left-behind-${process.pid}`
  const folder = await attacker(
    'leaver',
    `process.on('SIGTERM', () => {}); process.on('SIGHUP', () => {})
const code = "process.on('SIGTERM', () => {}); require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', '${mark}'], { detached: true, stdio: 'ignore', env: {} }).unref()"
spawnSync(process.execPath, ['-e', code], { env: {} })
process.on('exit', () => { const end = Date.now() + 60_000; while (Date.now() < end); })`,
  )
  host = await startHost([folder, await calm()])
  await expect.poll(() => commands(mark).length).toBeGreaterThan(0)
  expect(of('leaver').effects).toEqual(['process', 'timers'])
  expect((await host.extensions.enable('leaver', false)).state).toBe('off')
  expect(commands(mark)).toEqual([])
  await isWell()
})

test('kill -9 of the host leaves no process, and its next start no folder', {
  timeout: 120_000,
}, async () => {
  const mark = `orphan-${process.pid}`
  const folder = await attacker(
    'orphan',
    `spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', '${mark}'], { detached: true, stdio: 'ignore', env: {} })`,
  )
  const configDir = await mkdtemp(join(tmpdir(), 'svc-hostile-'))
  const given = `[${JSON.stringify(folder)}], { configDir: '${configDir}' }`
  const code = `import { startHost } from 'svc-host/testing'; await startHost(${given}); console.log('up')`
  const flags = ['--conditions=svc-source', '--no-node-snapshot', '--input-type=module']
  const child = spawn(process.execPath, [...flags, '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    await once(child.stdout, 'data')
    await expect.poll(() => commands(mark).length).toBeGreaterThan(0)
  } finally {
    child.kill('SIGKILL')
  }
  await expect.poll(() => commands(mark), { timeout: 10_000 }).toEqual([])
  const { folders } = effectsOf(configDir)
  expect(folders.length).toBeGreaterThan(0)
  await (await startHost([], { configDir })).stop()
  expect(folders.filter(existsSync)).toEqual([])
  await rm(configDir, { recursive: true })
})
