// The command line as a user meets it: a process of its own, its output and its exit code.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import about from 'svc-host/package.json' with { type: 'json' }
import { expect, test } from 'vitest'
import { run } from '../../kernel/cli.ts'
import { loadIdentity } from '../../kernel/identity.ts'
import { callHttps, later, temporaryFolder, until } from './front-under-test.ts'

/** Runs a command line inside this process, with an environment of its own. */
async function svcHost(
  configDir: string,
  ...argv: string[]
): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const into = (name: 'out' | 'err') =>
    ({
      write: (part: string) => {
        text[name] += part
        return true
      },
    }) as NodeJS.WritableStream
  const around = {
    out: into('out'),
    err: into('err'),
    env: { SVC_CONFIG_DIR: configDir },
    signal: new AbortController().signal,
  }
  return { code: await run(argv, around), ...text }
}

/** Runs `serve` as a process of its own on free ports. */
function serve(
  configDir: string,
  ...flags: string[]
): { child: ChildProcess; text(): string; exited: Promise<number | null> } {
  const conditions = ['--conditions=svc-source', '--disable-warning=ExperimentalWarning']
  const args = [
    ...conditions,
    'kernel/main.ts',
    'serve',
    '--config-dir',
    configDir,
    '--mgmt-bind',
    '127.0.0.1:0',
    ...flags,
  ]
  const env = { PATH: process.env['PATH'], HOME: configDir, SVC_NATIVE_PORT: '0', SVC_SOURCE: 'software' }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  child.stdout.on('data', chunk => {
    text += chunk
  })
  child.stderr.on('data', chunk => {
    text += chunk
  })
  const exited = new Promise<number | null>(done => child.once('exit', done))
  later(async () => {
    if (child.exitCode === null) child.kill('SIGKILL')
    await exited
  })
  return { child, text: () => text, exited }
}

test('--version, --help and a bare call', async () => {
  const folder = temporaryFolder()
  expect(await svcHost(folder, '--version')).toEqual({ code: 0, out: `${about.version}\n`, err: '' })
  const help = await svcHost(folder, '--help')
  expect([help.code, help.err]).toEqual([0, ''])
  expect(help.out).toMatch(/serve .*Run the host/)
  expect(help.out).toMatch(/ctl \[args\.\.\.\] /)
  const bare = await svcHost(folder)
  expect([bare.code, bare.out]).toEqual([2, ''])
  expect(bare.err).toContain('Usage: svc-host')
})

test('wrong usage is exit code 2, with the nearest thing that exists', async () => {
  const folder = temporaryFolder()
  const wrong = async (...argv: string[]) => {
    const { code, out, err } = await svcHost(folder, ...argv)
    expect([code, out]).toEqual([2, ''])
    return err
  }
  expect(await wrong('srve')).toMatch(/^svc-host: unknown command 'srve'\n\(Did you mean serve\?\)/)
  expect(await wrong('serve', '--mgmt-bnd=x')).toMatch(
    /unknown option '--mgmt-bnd=x'\n\(Did you mean --mgmt-bind\?\)/,
  )
  expect(await wrong('serve', 'extra')).toMatch(/too many arguments/)
  expect(await wrong('serve', '--mgmt-bind')).toMatch(/argument missing/)
  expect(await wrong('serve', '--mgmt-bind', 'nowhere')).toMatch(/"nowhere" is no address to listen on/)
})

test('a command without a host is exit code 3; with a foreign certificate on the port, 4', async () => {
  const folder = temporaryFolder()
  const never = await svcHost(folder, 'ctl', 'status')
  expect([never.code, never.err]).toEqual([
    3,
    expect.stringMatching(/no host has run with .* start one with svc-host serve/),
  ])

  const host = serve(folder)
  await until(() => existsSync(join(folder, 'mgmt-endpoint')), 15_000)
  const { certificatePem } = await loadIdentity(temporaryFolder(), () => {})
  writeFileSync(join(folder, 'native-cert.pem'), certificatePem)
  const squatted = await svcHost(folder, 'ctl', 'status')
  expect([squatted.code, squatted.err]).toEqual([
    4,
    expect.stringMatching(/another certificate than the pinned one/),
  ])

  host.child.kill('SIGKILL')
  await host.exited
  expect((await svcHost(folder, 'ctl', 'status')).code).toBe(3)
})

test('serve answers, keeps the token to itself, refuses a second one, and stops in order', async () => {
  const folder = temporaryFolder()
  const host = serve(folder)
  await until(() => /is ready on port \d+/.test(host.text()), 15_000)
  const port = Number(/is ready on port (\d+)/.exec(host.text())![1])
  expect((await callHttps(port, 'GET', '/api/v1/health')).status).toBe(200)
  expect(await svcHost(folder, 'ctl', 'status')).toMatchObject({ code: 0, err: '' })
  const token = readFileSync(join(folder, 'mgmt-token'), 'utf8').split('=')[1]!.trim()
  expect(host.text()).not.toContain(token)

  const second = serve(folder)
  expect(await second.exited).toBe(1)
  expect(second.text()).toContain(folder)

  host.child.kill('SIGTERM')
  expect(await host.exited).toBe(0)
}, 40_000)

test('a config folder that cannot be one is an error with a remedy: nothing waits, nothing is changed', async () => {
  const folder = temporaryFolder()
  const [file, shared] = [join(folder, 'file'), join(folder, 'shared')]
  writeFileSync(file, '')
  mkdirSync(shared)
  writeFileSync(join(shared, 'something'), '')
  for (const dir of ['/proc/svc-host/config', file, shared]) {
    const { code, err } = await svcHost(folder, 'serve', '--config-dir', dir)
    expect([code, err]).toEqual([1, expect.stringContaining(`the config folder ${dir} cannot be used: `)])
  }
  expect([statSync(file).mode & 0o777, statSync(shared).mode & 0o777]).toEqual([0o644, 0o755])
})

test('compiled code is kept for the next start, but never where another user could have put some', async () => {
  const folder = temporaryFolder()
  const kept = (name: string, prepare?: (code: string) => void): string[] => {
    const code = join(folder, name, 'svc-host', 'code')
    mkdirSync(join(code, '..'), { recursive: true })
    prepare?.(code)
    const env = { PATH: process.env['PATH'], XDG_CACHE_HOME: join(folder, name), SVC_CONFIG_DIR: folder }
    const args = [
      '--conditions=svc-source',
      '--disable-warning=ExperimentalWarning',
      'kernel/main.ts',
      '--version',
    ]
    expect(spawnSync(process.execPath, args, { env, encoding: 'utf8' }).stdout).toBe(`${about.version}\n`)
    return existsSync(code) ? readdirSync(code) : []
  }
  expect(kept('own')).toHaveLength(1)
  if (process.getuid?.() !== 0) return
  const others = (code: string): void => {
    mkdirSync(code)
    chownSync(code, 65534, 65534)
  }
  expect(kept('theirs', others)).toEqual([])
})
