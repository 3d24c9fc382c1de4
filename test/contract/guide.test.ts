// The author's guide, taken at its word: its folders are made by its commands, its blocks laid over them, compiled, tested
// by the scripts that were written, run in each realm, packed, installed and called by the lines that the text gives.
import { execFile } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type } from '../harness/command-line.ts'

vi.setConfig({ testTimeout: 120_000 })

const text = readFileSync('sdk/README.md', 'utf8')
const root = process.cwd()

/** Every block that names what it is: `ts hello/index.ts`; one text may stand for several files. */
const blocksOf = (readme: string) =>
  [...readme.matchAll(/^```\w+(?: (.+))?\n([\s\S]*?)^```$/gm)].map(match => ({
    files: match[1]?.split(' ') ?? [],
    text: match[2]!,
  }))
const blocks = blocksOf(text)

/** The lines of each block of commands of a section, as somebody types them. */
const commandsOf = (heading: string): string[][] => {
  const section = text.split(/^## /m).find(part => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(match => match[1]!.trim().split('\n'))
}
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/(?:'[^']*'|[^\s'])+/g)].map(([word]) => word.replaceAll("'", ''))

let guide: string
let weather: Server
let lookout: { url: string; folder: string }
beforeAll(async () => {
  guide = mkdtempSync(join(tmpdir(), 'svc-guide-'))
  weather = createServer((_, answer) => answer.end(JSON.stringify({ knots: 12 })))
  await new Promise<void>(done => weather.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(weather.address() as AddressInfo).port}/wind`
  lookout = { url, folder: join(guide, 'srv') }
  mkdirSync(join(guide, 'srv'), { mode: 0o777 })
  mkdirSync(join(guide, 'node_modules'))
  symlinkSync(root, join(guide, 'node_modules/svc-host'))
  for (const name of ['zod', '@types'])
    symlinkSync(join(root, 'node_modules', name), join(guide, 'node_modules', name))
})
afterAll(() => {
  weather?.close()
  rmSync(guide, { recursive: true })
})

const run = (
  program: string,
  args: readonly string[],
  env = process.env,
): Promise<{ code: number; said: string }> =>
  new Promise(done => {
    execFile(program, args, { cwd: guide, env }, (error, out, err) =>
      done({ code: error ? Number(error.code ?? 1) : 0, said: `${out}${err}` }),
    )
  })

/** Runs what stands in a section, or in one block of it; each command has to succeed. Returns what the shell's lines said. */
async function follow(heading: string, configDir: string, block?: number): Promise<string> {
  const lines = commandsOf(heading).filter((_, at) => block === undefined || at === block)
  expect(lines.length, heading).toBeGreaterThan(0)
  const others: string[] = []
  process.chdir(guide)
  try {
    for (const line of lines.flat()) {
      const [program, ...words] = wordsOf(line)
      if (program !== 'svc-host') {
        others.push(line)
        continue
      }
      const { code, out, err } = await type(configDir, ...words)
      expect({ code, said: code === 0 ? '' : `${out}${err}` }, line).toEqual({ code: 0, said: '' })
    }
  } finally {
    process.chdir(root)
  }
  if (others.length === 0) return ''
  const env = { PATH: process.env['PATH'], SVC_CONFIG_DIR: configDir }
  const { code, said } = await run('sh', ['-euc', others.join('\n')], env)
  expect(code, said).toBe(0)
  return said
}

const ids = ['visits', 'hello', 'guestbook', 'greeter', 'lookout']
const isTs = (name: string): boolean => name.endsWith('.ts')

test('what "plugins new" writes is what the guide shows', async () => {
  await follow('Hello, route', guide, 0)
  await follow('A service', guide)
  const { devDependencies } = JSON.parse(readFileSync(join(guide, 'hello/package.json'), 'utf8'))
  expect(devDependencies).toMatchObject({ 'svc-host': `file:${root}`, zod: expect.stringMatching('^file:/') })
  for (const { files, text: shown } of blocks)
    for (const file of files.filter(name => name.startsWith('hello/'))) {
      const written = readFileSync(join(guide, file), 'utf8')
      expect(file.endsWith('.json') ? JSON.parse(written) : written, file).toEqual(
        file.endsWith('.json') ? JSON.parse(shown) : shown,
      )
    }
})

test('every block compiles', async () => {
  const files = blocks.flatMap(block => block.files.map(file => ({ file, text: block.text })))
  expect(files.length).toBeGreaterThan(12)
  for (const { file, text: block } of files) writeFileSync(join(guide, file), block)
  // What has no block stays as it was made.
  const include = ids.flatMap(id => readdirSync(join(guide, id)).map(name => join(id, name))).filter(isTs)
  for (const file of include) {
    const code = stripTypeScriptTypes(readFileSync(join(guide, file), 'utf8'))
    writeFileSync(join(guide, file.replace(/ts$/, 'js')), code)
  }
  const author = JSON.parse(readFileSync(join(guide, 'hello/tsconfig.json'), 'utf8')).compilerOptions
  // The SDK is there as its sources.
  const sources = {
    lib: ['esnext'],
    customConditions: ['svc-source'],
    allowImportingTsExtensions: true,
    noEmit: true,
  }
  const config = { compilerOptions: { ...author, ...sources }, files: include }
  writeFileSync(join(guide, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  expect(await run(process.execPath, [tsc, '-p', 'tsconfig.json'])).toEqual({ code: 0, said: '' })
})

test.for(['kernel', 'isolate', 'process'] as const)('every extension of it runs: %s', async realm => {
  const host = await startHost(['status', ...ids.map(id => join(guide, id))], { realm, config: { lookout } })
  const ask = async (method: string, path: string, body?: unknown) => {
    const { status, json } = await host.inject(method, path, { body })
    return status === 200 ? json : { status, ...json }
  }
  try {
    expect(host.extensions.list().filter(({ state }) => state !== 'on')).toEqual([])
    expect(await ask('GET', '/ext/hello/greeting')).toEqual({ greeting: 'hello' })
    expect(await ask('POST', '/ext/guestbook/entries', { name: 'Ann' })).toEqual({ visits: 1 })
    expect(await ask('GET', '/ext/greeter/greetings/Ann')).toMatchObject({ text: 'Hello, Ann!', visits: 2 })
    expect(await ask('POST', '/ext/lookout/looks')).toEqual({
      knots: 12,
      sessions: 0,
      uptime: expect.stringContaining('up '),
    })
    expect(JSON.parse(readFileSync(join(guide, 'srv/report.json'), 'utf8')).knots).toBe(12)
    expect(host.logs.filter(({ level }) => level >= 50)).toEqual([])
  } finally {
    await host.stop()
  }
})

test.for(ids)('its own test passes: %s', async id => {
  const { test: script } = JSON.parse(readFileSync(join(guide, id, 'package.json'), 'utf8')).scripts
  expect(script).toBe('npm run build && svc-host plugins test')
  const { code, out, err } = await type(guide, 'plugins', 'test', join(guide, id))
  expect(code, `${out}${err}`).toBe(0)
  expect(out).toContain(`pass ${id === 'greeter' ? 2 : 1}\n`)
})

test('its commands do what it says, in the order of a first evening', async () => {
  const host: TestHost = await startHost(['plugins', 'logs', 'status'])
  const of = (id: string) => host.extensions.list().find(each => each.id === id)
  const greet = async () => (await host.inject('GET', '/ext/greeter/greetings/Ann')).json
  try {
    expect(JSON.parse(await follow('Hello, route', host.configDir, 1))).toEqual({ greeting: 'hello' })
    await follow('Publishing', host.configDir)
    expect([of('visits')?.why, of('greeter')?.state]).toEqual([null, 'on'])
    expect(await greet()).toMatchObject({ text: 'Hello, Ann!', visits: 1 })
    await follow('Config', host.configDir)
    expect(await greet()).toMatchObject({ text: 'Good day, Ann!', visits: 2 })
    await follow('Permissions', host.configDir)
    expect(of('greeter')?.permissions).toContainEqual({ permission: 'hooks:visits.admit', state: 'granted' })
    await follow('What disable does', host.configDir)
    expect(of('greeter')).toBeUndefined()
    expect(resolve(process.cwd())).toBe(root)
  } finally {
    await host.stop()
  }
})

test('the command runs from a link to the checkout, with the paths of the folder it is called in', async () => {
  symlinkSync(join(root, 'setup/svc-host.sh'), join(guide, 'svc-host'))
  const linked = await run('./svc-host', ['plugins', 'new', 'linked', '--js'])
  expect(linked.said).toContain('cd linked && npm install && npm test')
  const env = { ...process.env, INIT_CWD: guide }
  const { code, said } = await run(
    'sh',
    [join(root, 'setup/run.sh'), 'svc-host', 'plugins', 'verify', 'linked'],
    env,
  )
  expect(code, said).toBe(0)
})

test('the extension of the README answers once it is added', async () => {
  const host = await startHost(['plugins'])
  const shelf = join(guide, 'readme')
  try {
    const files = blocksOf(readFileSync('README.md', 'utf8')).filter(block => block.files.length > 0)
    expect(files.length).toBe(3)
    for (const block of files)
      for (const file of block.files) {
        mkdirSync(join(shelf, dirname(file)), { recursive: true })
        writeFileSync(join(shelf, file), block.text)
      }
    const added = await type(host.configDir, 'plugins', 'add', join(shelf, 'hello'), '--grant')
    expect(added).toMatchObject({ code: 0 })
    expect((await host.inject('GET', '/ext/hello', { token: null })).json).toEqual({ hello: 'world' })
    await type(host.configDir, 'plugins', 'disable', 'hello')
    expect((await host.inject('GET', '/ext/hello', { token: null })).status).toBe(404)
  } finally {
    await host.stop()
  }
})
