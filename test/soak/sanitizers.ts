// The engine's stream tests under AddressSanitizer with UndefinedBehaviorSanitizer, and its core under ThreadSanitizer.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../harness/host.ts'
import type { Sweep } from './main.ts'

const library = (name: string): string =>
  spawnSync('gcc', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim()

const node = (...args: string[]): string[] => [
  '--conditions=svc-source',
  '--no-node-snapshot',
  '--disable-warning=ExperimentalWarning',
  ...args,
]

interface Case {
  readonly name: string
  readonly build: readonly string[]
  /** Tests to run, or the core's own program. */
  readonly tests: readonly string[] | 'core'
  env(log: string): Record<string, string>
}

const address = (log: string) => ({
  SVC_ENGINE: 'engine-address',
  LD_PRELOAD: library('libasan.so'),
  // Node itself leaks at exit by design; the core's own program looks for leaks.
  ASAN_OPTIONS: `detect_leaks=0:log_path=${log}`,
  UBSAN_OPTIONS: `print_stacktrace=1:log_path=${log}`,
})

const cases: readonly Case[] = [
  { name: 'engine, address', build: ['--asan'], tests: ['native'], env: address },
  {
    name: 'streams, address',
    build: ['--asan'],
    tests: ['test/e2e/stream.test.ts', 'test/e2e/first-light.test.ts'],
    env: address,
  },
  {
    name: 'core, address',
    build: ['--tests', '--asan'],
    tests: 'core',
    env: log => ({ ASAN_OPTIONS: `log_path=${log}` }),
  },
  {
    name: 'core, thread',
    build: ['--tests', '--tsan'],
    tests: 'core',
    env: log => ({ TSAN_OPTIONS: `log_path=${log}` }),
  },
]

/** The program of the core's tests that the last build of these flags points at. */
function coreProgram(build: readonly string[]): string {
  const flavour = `tests${build.includes('--asan') ? '-address' : '-thread'}`
  const root = join(import.meta.dirname, '../../native/build')
  const { key } = JSON.parse(readFileSync(join(root, `${flavour}.json`), 'utf8'))
  return join(root, key, 'core_test')
}

export const sanitizerSweep: Sweep = {
  name: 'sanitizers',
  rounds: cases.length,
  async begin() {
    let next = 0
    return {
      async round() {
        const each = cases[next++ % cases.length] as Case
        const folder = mkdtempSync(join(tmpdir(), 'svc-soak-sanitizers-'))
        try {
          const built = await run(process.execPath, ['native/build.mjs', ...each.build])
          if (built.code !== 0) throw new Error(`${each.name}: the build failed: ${built.err}`)
          const env = each.env(join(folder, 'report'))
          const command =
            each.tests === 'core'
              ? [coreProgram(each.build)]
              : [process.execPath, ...node('node_modules/vitest/vitest.mjs', 'run', ...each.tests)]
          const tested = await run(command[0] as string, command.slice(1), { env })
          const reports = readdirSync(folder).map(name => readFileSync(join(folder, name), 'utf8'))
          if (reports.length) throw new Error(`${each.name}: ${reports.join('\n').slice(0, 8000)}`)
          if (tested.code !== 0)
            throw new Error(`${each.name}: ${`${tested.out}\n${tested.err}`.slice(-8000)}`)
        } finally {
          rmSync(folder, { recursive: true, force: true })
        }
      },
      async end() {},
    }
  },
}
