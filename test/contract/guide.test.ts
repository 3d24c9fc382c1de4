// The author's guide, taken at its word: each of its blocks is written out beside the repository, as an author would have
// them, compiled, run in each realm, tested, packed and installed by the commands that the text gives.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
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

/** The commands of a section, as somebody types them. */
const commandsOf = (heading: string): string[][] => {
  const section = text.split(/^## /m).find(part => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    .flatMap(match => match[1]!.trim().split('\n'))
    .map(line => [...line.matchAll(/(?:'[^']*'|[^\s'])+/g)].map(([word]) => word.replaceAll("'", '')))
}

let guide: string
let weather: Server
let swaps: [there: string, here: string][]
beforeAll(async () => {
  guide = mkdtempSync(join(tmpdir(), 'svc-guide-'))
  weather = createServer((_, answer) => answer.end(JSON.stringify({ knots: 12 })))
  await new Promise<void>(done => weather.listen(0, '127.0.0.1', done))
  const host = `127.0.0.1:${(weather.address() as AddressInfo).port}`
  // What this machine does not have: a service on the internet, and a folder of the operator's.
  swaps = [
    ['https://api.example.com', `http://${host}`],
    ['network:api.example.com"', `network:${host}"`],
    ['/srv/lookout', join(guide, 'srv')],
  ]
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

const run = (program: string, args: readonly string[]): Promise<{ code: number; said: string }> =>
  new Promise(done => {
    execFile(program, args, { cwd: guide }, (error, out, err) =>
      done({ code: error ? Number(error.code ?? 1) : 0, said: `${out}${err}` }),
    )
  })

/** Runs what stands in a section against a host; each command has to succeed. */
async function follow(heading: string, configDir: string): Promise<void> {
  const commands = commandsOf(heading)
  expect(commands.length, heading).toBeGreaterThan(0)
  process.chdir(guide)
  try {
    for (const [program, ...words] of commands) {
      expect(program).toBe('svc-host')
      const { code, out, err } = await type(configDir, ...words)
      expect({ code, said: code === 0 ? '' : `${out}${err}` }, words.join(' ')).toEqual({ code: 0, said: '' })
    }
  } finally {
    process.chdir(root)
  }
}

test('what "plugins new" writes is what the guide shows', async () => {
  await follow('Hello, route', guide)
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
  for (const { file, text: block } of files) {
    const content = swaps.reduce((all, [there, here]) => all.replaceAll(there, here), block)
    mkdirSync(join(guide, dirname(file)), { recursive: true })
    writeFileSync(join(guide, file), content)
    if (file.endsWith('.ts'))
      writeFileSync(join(guide, file.replace(/ts$/, 'js')), stripTypeScriptTypes(content))
  }
  const author = JSON.parse(readFileSync(join(guide, 'hello/tsconfig.json'), 'utf8')).compilerOptions
  // The SDK is there as its sources.
  const sources = {
    lib: ['esnext'],
    customConditions: ['svc-source'],
    allowImportingTsExtensions: true,
    noEmit: true,
  }
  const include = files.filter(({ file }) => file.endsWith('.ts')).map(({ file }) => file)
  const config = { compilerOptions: { ...author, ...sources }, files: include }
  writeFileSync(join(guide, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  expect(await run(process.execPath, [tsc, '-p', 'tsconfig.json'])).toEqual({ code: 0, said: '' })
})

const ids = ['visits', 'hello', 'guestbook', 'greeter', 'lookout']

test.for(['kernel', 'isolate', 'process'] as const)('every extension of it runs: %s', async realm => {
  const host = await startHost(['status', ...ids.map(id => join(guide, id))], { realm })
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

test('the tests of the guide pass', async () => {
  const flags = ['--conditions=svc-source', '--no-node-snapshot', '--test']
  const { code, said } = await run(process.execPath, [...flags, 'greeter/greeter.test.js'])
  expect(code, said).toBe(0)
  expect(said).toContain('pass 2')
})

test('its commands do what it says, in the order of a first evening', async () => {
  const host: TestHost = await startHost(['plugins', 'logs', 'status'])
  const of = (id: string) => host.extensions.list().find(each => each.id === id)
  const greet = async () => (await host.inject('GET', '/ext/greeter/greetings/Ann')).json
  try {
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
