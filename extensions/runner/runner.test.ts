// The plugin runner with a real host and real processes behind walls: what it runs, how often, what that reaches, and its ends.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { examine } from '../../kernel/examine.ts'
import { jailed } from '../../kernel/realms/jail.ts'
import { type } from '../../test/harness/command-line.ts'
import { until } from '../../test/harness/host.ts'
import { createBackoff } from './backoff.ts'
import { keepToken } from './hosted.ts'
import { createLineReader, parseSaid, plainLine } from './lines.ts'
import { type RunnerOptions, runUnits } from './runner.ts'
import { permissionsIn } from './scripts.ts'

// Processes start slowly on a machine that is busy.
vi.setConfig({ testTimeout: 90_000 })
const patientMs = 40_000

let host: TestHost
let configDir: string
let server: Server
let port: number
beforeAll(async () => {
  host = await startHost({ extensions: ['registrations', 'logs', 'events', 'status'] })
  configDir = host.configDir
  await keepToken(configDir, true)
  server = createServer((asked, answer) => void answer.end(`lamp ${asked.url}`))
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  port = (server.address() as AddressInfo).port
})
afterAll(async () => {
  server.close()
  await host.stop()
})

const scripts = (): string => join(configDir, 'scripts')
const packages = (): string => join(configDir, 'plugins')
const stateOf = (id: string): string => join(configDir, 'plugin-state', id)
function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  writeFileSync(path, text)
  chmodSync(path, mode)
}
const script = (name: string, text: string, mode?: number): void => write(join(scripts(), name), text, mode)

interface Started {
  /** Lines so far, `LEVEL source: text`. */
  readonly lines: string[]
  seen(text: string | RegExp): Promise<string>
  stop(): Promise<void>
}
let started: Started[]
let spawned: ChildProcess[]
const quick = { firstMs: 20, lastMs: 100, healthyMs: 60_000, random: () => 0.5 }
function run(options: Partial<RunnerOptions> = {}): Started {
  const lines: string[] = []
  const ended = new AbortController()
  const places = { configDir, scriptsDir: scripts(), pluginsDir: packages() }
  const print = (level: string, source: string, text: string): void =>
    void lines.push(`${level} ${source}: ${text}`)
  const usual = { jailed, examine, signal: ended.signal, print, backoff: quick, lookMs: 40, graceMs: 1500 }
  const done = runUnits({ ...places, ...usual, ...options })
  done.catch(() => {})
  const seen = (text: string | RegExp) =>
    until(`"${text}" in\n${lines.join('\n')}`, () => lines.find(each => each.match(text)), patientMs).catch(
      error => {
        throw new Error(`${error.message}\n${lines.join('\n')}`)
      },
    )
  const stop = (): Promise<void> => {
    ended.abort()
    return done
  }
  const one = { lines, seen, stop }
  started.push(one)
  return one
}
beforeEach(() => {
  started = []
  spawned = []
})
afterEach(async () => {
  for (const each of spawned) each.kill('SIGKILL')
  for (const each of started) await each.stop().catch(() => {})
  for (const name of ['scripts', 'plugins', 'plugin-state', 'extensions.json', 'runner.json'])
    rmSync(join(configDir, name), { recursive: true, force: true })
})

/** Processes that have this text in their command line, other than this one. */
const processesWith = (text: string): string[] =>
  readdirSync('/proc').filter(pid => {
    try {
      return (
        /^\d+$/.test(pid) &&
        Number(pid) !== process.pid &&
        readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text)
      )
    } catch {
      return false
    }
  })

test('a script runs once; a plugin that fails starts again, and one that returns is complete', async () => {
  script(
    'once.js',
    `import { appendFileSync } from 'node:fs'\nappendFileSync('/state/runs', 'x')\nconsole.log('I ran')`,
  )
  script(
    'throws.js',
    `import { appendFileSync } from 'node:fs'\nappendFileSync('/state/runs', 'x')\nthrow new Error('on purpose')`,
  )
  script(
    'lamp.ts',
    `import { appendFileSync, readFileSync } from 'node:fs'
    import { definePlugin, type UnitContext } from 'svc-host/api/runner'
    export default definePlugin({
      name: 'lamp',
      async main({ log, storageDir }: UnitContext) {
        appendFileSync(storageDir + '/runs', 'x')
        const { length } = readFileSync(storageDir + '/runs', 'utf8')
        if (length < 3) throw new Error('try ' + length)
        log.warn('lit', { tries: length })
      },
    })`,
  )
  const runner = run()
  await runner.seen('INFO lamp: lamp is complete')
  await runner.seen('INFO once: once is complete')
  await runner.seen('ERROR throws: throws has failed with exit code 1')
  expect(runner.lines).toContain('WARN lamp: lit tries=3')
  expect(runner.lines.filter(line => /lamp starts again in \d+ ms/.test(line))).toEqual([
    'INFO lamp: lamp starts again in 20 ms',
    'INFO lamp: lamp starts again in 40 ms',
  ])
  // The lines are in the log of the host, under the units’ names.
  const inLog = await until('lines in the log', async () => {
    const { entries } = (await host.inject('GET', '/logs')).json
    const of = (target: string) => entries.filter((each: { target: string }) => each.target === target)
    return of('plugin:once').length > 1 && [...of('plugin:once'), ...of('plugin:lamp')]
  })
  expect(inLog).toEqual(expect.arrayContaining([expect.objectContaining({ level: 'INFO', msg: 'I ran' })]))
  // Changed, it is another script.
  script(
    'once.js',
    `import { appendFileSync } from 'node:fs'\nappendFileSync('/state/runs', 'y')\nconsole.log('changed')`,
  )
  await runner.seen('INFO once: changed')
  await runner.stop()
  expect(readFileSync(join(stateOf('once'), 'runs'), 'utf8')).toBe('xy')
  expect(readFileSync(join(stateOf('throws'), 'runs'), 'utf8')).toBe('x')
})

test('behind its walls it has its own token, granted hosts and granted folders, and nothing else', async () => {
  const secret = mkdtempSync(join(tmpdir(), 'runner-secret-'))
  const shared = mkdtempSync(join(tmpdir(), 'runner-shared-'))
  chmodSync(shared, 0o755)
  for (const folder of [secret, shared]) write(join(folder, 'file'), 'content')
  script(
    'peeps.js',
    `// @permission network:127.0.0.1:${port}
    // @permission read:${shared}
    import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
    import { connect } from 'svc-host/client'
    const outcome = work => Promise.resolve().then(work).then(value => value ?? 'fine', error => error.status ?? error.code ?? error.cause?.code ?? error.message)
    const client = await connect()
    const put = id => client.request('PUT', '/plugins/' + id, { title: 'Peeps' })
    const seen = {
      own: await outcome(() => put('peeps')),
      foreign: await outcome(() => put('lamp')),
      status: await outcome(() => client.request('GET', '/status').then(() => 'fine')),
      logs: await outcome(() => client.request('GET', '/logs')),
      granted: await outcome(() => fetch('http://127.0.0.1:${port}/x').then(answer => answer.text())),
      refused: await fetch('http://127.0.0.1:${host.port}/').then(() => 'reached', () => 'refused'),
      shared: await outcome(() => readFileSync('${shared}/file', 'utf8')),
      kept: await outcome(() => writeFileSync('${shared}/file', 'mine')),
      secret: await outcome(() => readFileSync('${secret}/file', 'utf8')),
      config: await outcome(() => readFileSync('${configDir}/mgmt-token', 'utf8')),
      shadow: await outcome(() => readFileSync('/etc/shadow', 'utf8')),
      processes: readdirSync('/proc').filter(name => /^[0-9]+$/.test(name)).length < 8,
      secrets: Object.values(process.env).filter(text => text === '${host.adminToken}').length,
      state: await outcome(() => writeFileSync('/state/mine', 'x')),
      elsewhere: await outcome(() => writeFileSync('/unit/mine', 'x')),
    }
    console.log('SEEN ' + JSON.stringify(seen))`,
  )
  const runner = run()
  const line = await runner.seen('SEEN')
  expect(JSON.parse(line.slice(line.indexOf('{')))).toEqual({
    own: 'fine',
    foreign: 403,
    status: 'fine',
    logs: 403,
    granted: 'lamp /x',
    refused: 'refused',
    shared: 'content',
    kept: 'EROFS',
    secret: 'ENOENT',
    config: 'ENOENT',
    shadow: 'ENOENT',
    processes: true,
    secrets: 0,
    state: 'fine',
    elsewhere: 'EROFS',
  })
  await runner.seen(`WARN peeps: peeps has not been granted network:127.0.0.1:${host.port}`)
  const token = readFileSync(join(stateOf('peeps'), '.plugin-token'), 'utf8')
    .trim()
    .split('=')[1]!
  const status = async () =>
    (await host.inject('PUT', '/plugins/peeps', { body: { title: 'x' }, token })).status
  expect(await status()).toBe(204)
  // With its file its token goes.
  rmSync(join(scripts(), 'peeps.js'))
  await until('the token to end', async () => (await status()) === 401)
  for (const folder of [secret, shared]) rmSync(folder, { recursive: true })
})

test('what everybody may write to, what is taken and what asks for too much is refused, and --list says so', async () => {
  script('open.js', `console.log('never')`, 0o666)
  script('Capital.js', '')
  script('sessions.js', '')
  script('taken.js', '')
  script('greedy.js', '// @permission hooks:session.admit\n')
  script('fine.js', '// @permission network:example.com\n')
  write(
    join(packages(), 'package.json'),
    JSON.stringify({ dependencies: { 'svc-plugin-taken': '1.0.0', other: '1.0.0' } }),
  )
  const permissions = ['network:example.com', 'api:status']
  const json = { name: 'svc-plugin-taken', version: '1.0.0', 'svc-host': { permissions } }
  write(join(packages(), '.versions/taken/1.0.0/package.json'), JSON.stringify(json))
  write(join(packages(), '.versions/taken/1.0.0/index.js'), '')
  const list = async () => (await type(configDir, 'runner', '--list')).out.trim().split('\n').sort()
  const first = await list()
  expect(first).toHaveLength(7)
  expect(first.join('\n')).toMatch(/^Capital {2}refused .* rename it$/m)
  expect(first).toContain(`fine  script  ${join(scripts(), 'fine.js')}  network:example.com`)
  expect(first.join('\n')).toMatch(/^greedy {2}refused .* "hooks" is for extensions/m)
  expect(first.join('\n')).toMatch(/^open {2}refused .* is world-writable; run chmod o-w /m)
  expect(first.join('\n')).toMatch(/^sessions {2}refused .* is the name of a part of the host/m)
  expect(first.join('\n')).toMatch(
    /^taken {2}refused .* asks for network:example.com and api:status, which nobody has granted; run svc-host plugins grant taken$/m,
  )
  const decided = { taken: { granted: ['network:example.com'], refused: ['api:status'] } }
  write(join(configDir, 'extensions.json'), JSON.stringify({ permissions: decided }))
  const second = (await list()).join('\n')
  expect(second).toMatch(/^taken {2}package {2}.*index.js {2}network:example.com$/m)
  expect(second).toMatch(/^taken {2}refused .*taken.js {2}"taken" is the name of .*index.js already/m)
  chmodSync(scripts(), 0o777)
  expect((await list()).filter(line => line.includes('world-writable'))).toHaveLength(5)
  for (const name of ['Capital', 'fine', 'greedy', 'sessions', 'taken']) rmSync(join(scripts(), `${name}.js`))
  const runner = run()
  await runner.seen(/ERROR runner: open is not run: .*world-writable/)
  await runner.seen('INFO taken: taken is complete')
  expect(runner.lines.join('\n')).not.toContain('never')
})

test('a package whose files are not those that were installed is not run', async () => {
  const folder = join(packages(), '.versions/lamp/1.0.0')
  write(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'svc-plugin-lamp', version: '1.0.0', type: 'module' }),
  )
  write(join(folder, 'index.js'), `console.log('as it was')`)
  const { seal } = await examine(folder)
  const ledger = {
    dependencies: { 'svc-plugin-lamp': '1.0.0' },
    seals: { 'svc-plugin-lamp': { '1.0.0': seal } },
  }
  write(join(packages(), 'package.json'), JSON.stringify(ledger))
  const runner = run()
  await runner.seen('INFO lamp: as it was')
  write(join(folder, 'index.js'), `console.log('somebody else’s')`)
  await runner.seen('its files are not those that were installed')
  expect(runner.lines.join('\n')).not.toContain('somebody else')
})

test('a stop ends all together: finalizers run, last first, and what hangs is killed', async () => {
  const waits = (more = '') => `import { appendFileSync } from 'node:fs'
    export default { name: 'waits', async main({ id, client, signal, onEnd }) {
      const note = text => appendFileSync('/state/order', text + ' ')
      onEnd(() => note('first'))
      onEnd(async () => { await client.request('GET', '/status'); note('second') })
      console.log('ready')
      ${more}
      await new Promise(done => signal.addEventListener('abort', done))
      note('main')
    } }`
  script('one.js', waits())
  script('other.js', waits())
  script(
    'hangs.js',
    `export default { name: 'hangs', main() { console.log('ready'); return new Promise(() => setInterval(() => {}, 1e6)) } }`,
  )
  script(
    'listens.js',
    `process.on('SIGTERM', () => { console.log('heard it'); clearInterval(timer) })
    const timer = setInterval(() => {}, 1000); console.log('ready')`,
  )
  const runner = run()
  for (const id of ['one', 'other', 'hangs', 'listens']) await runner.seen(`INFO ${id}: ready`)
  await expect(runUnits({ ...({} as RunnerOptions), configDir })).rejects.toThrow(
    `the runner with pid ${process.pid} runs the units of ${configDir} already; stop it first`,
  )
  expect(runner.lines.filter(line => /(one|other) is complete/.test(line))).toEqual([])
  // One that goes while the others stay ends in the same way.
  rmSync(join(scripts(), 'other.js'))
  await until(
    'its finalizers',
    () =>
      existsSync(join(stateOf('other'), 'order')) &&
      readFileSync(join(stateOf('other'), 'order'), 'utf8').endsWith('first '),
  )
  const begin = performance.now()
  await runner.stop()
  expect(performance.now() - begin).toBeLessThan(4000)
  for (const id of ['one', 'other'])
    expect(readFileSync(join(stateOf(id), 'order'), 'utf8')).toBe('main second first ')
  expect(runner.lines).toContain('INFO listens: heard it')
  expect(runner.lines).toContain('WARN hangs: hangs has not ended within 1500 ms and is killed')
  expect(processesWith('/svc-host/extensions/runner/unit-main')).toEqual([])
  expect(existsSync(join(configDir, 'plugin-run/unit-tokens.json'))).toBe(false)
})

test('without bubblewrap nothing runs but packages that are trusted by name, and the reason is told', async () => {
  script('bare.js', `console.log('never')`)
  const folder = join(packages(), '.versions/lamp/1.0.0')
  write(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'svc-plugin-lamp', version: '1.0.0', type: 'module' }),
  )
  write(
    join(folder, 'index.js'),
    `import { readFileSync } from 'node:fs'
    export default { name: 'lamp', async main({ client, storageDir, onEnd }) {
      const status = await client.request('GET', '/plugins/lamp/ui-credential').catch(error => error.status)
      const token = readFileSync(storageDir + '/.plugin-token', 'utf8').startsWith('SVC_PLUGIN_TOKEN=')
      let admin = 'closed'
      try { readFileSync('${configDir}/mgmt-token'); admin = 'open' } catch {}
      onEnd(() => console.log('done'))
      console.log([status, token, process.getuid() || admin].join(' '))
    } }`,
  )
  write(join(packages(), 'package.json'), JSON.stringify({ dependencies: { 'svc-plugin-lamp': '1.0.0' } }))
  const path = process.env['PATH']
  process.env['PATH'] = '/nowhere'
  // What was found once is not asked for again.
  vi.resetModules()
  const { jailed } = await import('../../kernel/realms/jail.ts')
  try {
    const runner = run({ jailed })
    for (const id of ['bare', 'lamp'])
      await runner.seen(`ERROR ${id}: ${id} cannot be started: bubblewrap is missing`)
    write(join(configDir, 'extensions.json'), JSON.stringify({ trusted: ['lamp', 'bare'] }))
    await runner.seen('WARN lamp: runs without walls, because you trust it: bubblewrap is missing')
    await runner.seen(/INFO lamp: 403 true [1-9]\d*$/)
    await runner.seen('INFO lamp: done')
    await runner.seen('INFO lamp: lamp is complete')
    expect(runner.lines.join('\n')).not.toContain('never')
    await runner.stop()
    expect(readdirSync(tmpdir()).filter(name => name.startsWith('svc-unit-'))).toEqual([])
  } finally {
    process.env['PATH'] = path
  }
})

test('a unit that takes too much memory is killed, and a flood of lines is cut', async () => {
  script('hoards.js', `const all = []; setInterval(() => all.push(Buffer.alloc(2e7, 1)), 20)`)
  script('floods.js', `for (let n = 0; n < 5000; n++) console.log('line ' + n)`)
  const runner = run({ memoryMb: 200 })
  await runner.seen('WARN hoards: it takes over 200 MB of memory and is killed')
  await runner.seen('ERROR hoards: hoards has failed with SIGKILL')
  await runner.seen('INFO floods: floods is complete')
  await runner.stop()
  const told = runner.lines.filter(line => line.includes('floods: line')).length
  expect(told).toBeLessThan(2500)
  const dropped = runner.lines.map(line =>
    Number(/^WARN floods: (\d+) more lines within a second were dropped$/.exec(line)?.[1] ?? 0),
  )
  expect(told + dropped.reduce((sum, count) => sum + count)).toBe(5000)
})

const nodeFlags = ['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning']
async function spawnRunner(id: string): Promise<ChildProcess & { text(): string }> {
  script(`${id}.js`, `export default { name: 'hangs', async main() { console.log('ready'); for (;;); } }`)
  const child = spawn(process.execPath, [...nodeFlags, 'kernel/main.ts', 'runner'], {
    env: { PATH: process.env['PATH'], SVC_CONFIG_DIR: configDir },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  spawned.push(child)
  let text = ''
  child.stdout!.setEncoding('utf8').on('data', more => (text += more))
  await until(`${id} to run`, () => text.includes(`${id}: ready`), patientMs)
  return Object.assign(child, { text: () => text })
}

test('a runner that is killed, or told twice to end, leaves no unit behind', async () => {
  const [killed, told] = [
    `killed-${randomBytes(4).toString('hex')}`,
    `told-${randomBytes(4).toString('hex')}`,
  ]
  const first = await spawnRunner(killed)
  first.kill('SIGKILL')
  await until('the unit to end', () => processesWith(killed).length === 0)
  rmSync(join(scripts(), `${killed}.js`))
  const second = await spawnRunner(told)
  const begin = performance.now()
  second.kill('SIGTERM')
  await until('the first signal to be heard', () => second.text().includes('a second signal leaves at once'))
  second.kill('SIGINT')
  await once(second, 'exit')
  expect(performance.now() - begin).toBeLessThan(2500)
  await until('the unit to end', () => processesWith(told).length === 0)
})

test('the host runs it while there is something to run, and says how it fares', async () => {
  const other = await startHost({ extensions: ['registrations', 'logs', 'runner'] })
  try {
    const state = async () => (await other.inject('GET', '/store/runtime')).json
    const tokenFile = join(other.configDir, 'plugin-token')
    expect(await state()).toMatchObject({
      installed: false,
      enabled: true,
      running: false,
      unit: 'svc-scripting',
    })
    expect(existsSync(tokenFile)).toBe(false)
    write(join(other.configDir, 'scripts/waits.js'), `setInterval(() => {}, 1000)\nconsole.log('ready')`)
    expect((await other.inject('POST', '/store/runtime', { body: { enabled: true } })).status).toBe(200)
    await until('the runner', async () => (await state()).running, patientMs)
    expect(readFileSync(tokenFile, 'utf8')).toMatch(/^SVC_PLUGIN_TOKEN=[0-9a-f]{64}\n$/)
    await until(
      'its lines',
      async () => (await other.inject('GET', '/logs')).text.includes('plugin:waits'),
      patientMs,
    )
    await until('its state', async () => {
      const { units } = await state()
      return units.some((unit: object) => JSON.stringify(unit).includes('running')) && units
    })
    expect((await state()).units).toEqual([{ id: 'waits', kind: 'script', state: 'running', restarts: 0 }])
    const changes = () => other.events().filter(({ kind }) => kind === 'runner.changed')
    await until('the event', () => changes().length === 1)
    expect((await other.inject('POST', '/store/runtime', { body: {} })).status).toBe(400)
    const off = await other.inject('POST', '/store/runtime', { body: { enabled: false } })
    expect(off.json).toMatchObject({ installed: true, enabled: false, running: false })
    expect(changes()).toMatchObject([
      { enabled: true, running: true },
      { enabled: false, running: false },
    ])
    rmSync(join(other.configDir, 'scripts/waits.js'))
    await until('the token to go', () => !existsSync(tokenFile))
  } finally {
    await other.stop()
  }
})

test('waits are doubled from the first to the last, jittered within these, and short again after health', () => {
  const wait = (random: number) =>
    createBackoff({ firstMs: 1000, lastMs: 60_000, healthyMs: 60_000, random: () => random })
  const waits = (random: number, ...ran: number[]) => ran.map(wait(random))
  expect(waits(0.5, 0, 0, 0, 0, 0, 0, 0, 0)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
  expect(waits(0, 0, 0, 59_999, 60_000)).toEqual([1000, 1500, 3000, 1000])
  expect(waits(1, 0, 0, 0, 0, 0, 0, 0)).toEqual([1250, 2500, 5000, 10_000, 20_000, 40_000, 60_000])
})

test('another program takes the place of the runner, and a safe start runs none', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'other-runner-'))
  const program = join(folder, 'runner.sh')
  write(program, `#!/bin/sh\necho "$1 $SVC_CONFIG_DIR" > ${folder}/said\necho broken >&2\nexit 3\n`, 0o755)
  const start = async (options: object) => {
    const other = await startHost({ extensions: ['registrations', 'runner'], ...options })
    write(join(other.configDir, 'scripts/one.js'), '')
    await other.inject('POST', '/store/runtime', { body: { enabled: true } })
    const state = async () => (await other.inject('GET', '/store/runtime')).json
    return { other, state }
  }
  const one = await start({ env: { SVC_SCRIPTING: program } })
  const detail = await until('its end', async () => (await one.state()).detail, patientMs)
  expect(detail).toBe('it has ended with exit code 3: broken')
  expect(readFileSync(join(folder, 'said'), 'utf8')).toBe(`runner ${one.other.configDir}\n`)
  await one.other.stop()
  rmSync(join(folder, 'said'))
  const safe = await start({ env: { SVC_SCRIPTING: program }, flags: { safe: true } })
  expect(await safe.state()).toMatchObject({
    running: false,
    detail: 'the host was started with --safe, which runs none',
  })
  expect(existsSync(join(folder, 'said'))).toBe(false)
  await safe.other.stop()
  rmSync(folder, { recursive: true })
})

test('any text is a script, and any line something that a unit says, or none', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.jsonValue(),
      fc.array(fc.string()),
      (noise, json, pieces) => {
        for (const each of permissionsIn(noise)) expect(each.trim()).toBe(each)
        expect(
          permissionsIn(`#!/usr/bin/node\n// About it.\n\n//@permission  read:/a b \n${noise}`),
        ).toContain('read:/a b')
        for (const line of [noise, JSON.stringify(json)]) {
          const said = parseSaid(line)
          if (said) expect('level' in said || 'plugin' in said).toBe(true)
        }
        expect(plainLine(noise)).not.toMatch(/[\p{Cc}\p{Cf}]/u)
        const lines: string[] = []
        const read = createLineReader(line => lines.push(line))
        for (const piece of pieces) read(piece)
        expect(lines).toEqual(pieces.join('').split('\n').slice(0, -1))
      },
    ),
  )
})
