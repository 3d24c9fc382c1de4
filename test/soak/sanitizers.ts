// The engine under AddressSanitizer with UndefinedBehaviorSanitizer and LeakSanitizer, and under ThreadSanitizer: its core in a
// program of its own, and as the addon in real hosts that stream to real clients.
//
// Node, libx264, libpulse and the like are not built for a sanitizer. AddressSanitizer does not mind: it sees their heap and
// leaves their code alone. ThreadSanitizer would take each use of memory that they lock in ways of their own for a race, so
// what they do themselves is left out (ignore_noninstrumented_modules); the locks that they take, and every access of the
// engine's own code on whatever thread, libx264's among them, are seen. That is all that is left out: there is no list of
// suppressions, and a finding is a finding.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Finished, run } from '../harness/host.ts'
import { startDevices } from './devices.ts'
import type { Sweep } from './main.ts'

type Sanitizer = 'address' | 'thread'

const buildFlag: Readonly<Record<Sanitizer, string>> = { address: '--asan', thread: '--tsan' }
const runtime: Readonly<Record<Sanitizer, string>> = { address: 'libasan.so', thread: 'libtsan.so' }
const nodeFlags = ['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning']

/** Where and how the runtimes report; they write a file for each process that has something to say. */
const reporting = (log: string, leaks: boolean): Record<string, string> => ({
  ASAN_OPTIONS: `detect_leaks=${leaks ? 1 : 0}:detect_stack_use_after_return=1:log_path=${log}`,
  UBSAN_OPTIONS: 'print_stacktrace=1',
  SVC_UBSAN_LOG: log,
  TSAN_OPTIONS: `ignore_noninstrumented_modules=1:second_deadlock_stack=1:log_path=${log}`,
})

const reports = (folder: string): string[] =>
  readdirSync(folder).map(name => readFileSync(join(folder, name), 'utf8'))

async function build(...flags: string[]): Promise<void> {
  const { code, err } = await run(process.execPath, ['native/build.mjs', ...flags])
  if (code !== 0) throw new Error(`the build failed: ${err}`)
}

/** The program of the core's tests that the last build points at. */
function coreProgram(sanitizer: Sanitizer): string {
  const root = join(import.meta.dirname, '../../native/build')
  const { key } = JSON.parse(readFileSync(join(root, `tests-${sanitizer}.json`), 'utf8'))
  return join(root, key, 'core_test')
}

const runtimeOf = (sanitizer: Sanitizer): string =>
  spawnSync('gcc', [`-print-file-name=${runtime[sanitizer]}`], { encoding: 'utf8' }).stdout.trim()

/** Under these a process that loads the engine loads the sanitized one. */
const addonEnv = (sanitizer: Sanitizer): Record<string, string> => ({
  SVC_ENGINE: `engine-${sanitizer}`,
  LD_PRELOAD: runtimeOf(sanitizer),
})

type Step = (log: string, folder: string) => Promise<Finished>

/** All of the core's tests, leaks looked for at the end, with the devices that some of them need. */
const core =
  (sanitizer: Sanitizer): Step =>
  async (log, folder) => {
    await build('--tests', buildFlag[sanitizer])
    const place = mkdtempSync(join(folder, 'devices-'))
    const devices = await startDevices(place)
    try {
      const ran = await run(coreProgram(sanitizer), [], { env: { ...reporting(log, true), ...devices.env } })
      if (/^skipped /m.test(ran.out)) throw new Error(`tests were left out:\n${ran.out}`)
      return ran
    } finally {
      devices.stop()
    }
  }

const vitest = (file: string, env: Record<string, string>): Promise<Finished> =>
  run(process.execPath, [...nodeFlags, 'node_modules/vitest/vitest.mjs', 'run', file, '--retry=2'], { env })

/** The engine's tests from TypeScript: the test process itself loads the engine. */
const addon =
  (sanitizer: Sanitizer): Step =>
  async log => {
    await build(buildFlag[sanitizer])
    // Not sanitized, but its build under a sanitizer's runtime would take its time.
    await build('--tests')
    return vitest('native/native.test.ts', { ...addonEnv(sanitizer), ...reporting(log, false) })
  }

/** Tests that stream from real hosts: only the hosts load the engine. */
const streams =
  (sanitizer: Sanitizer, name: string): Step =>
  async log => {
    await build(buildFlag[sanitizer])
    const { SVC_ENGINE, LD_PRELOAD } = addonEnv(sanitizer) as { SVC_ENGINE: string; LD_PRELOAD: string }
    const env = { SVC_ENGINE, SVC_ENGINE_PRELOAD: LD_PRELOAD, ...reporting(log, false) }
    return vitest(`test/e2e/${name}.test.ts`, env)
  }

/** Each sanitizer finds what is done on purpose, in the core's program and in Node: what it does not find later is not there. */
const check: Step = async (_, folder) => {
  const load = [...nodeFlags, '--input-type=module', '-e', "await import('./native/index.ts')"]
  const faults: [string, Sanitizer, RegExp][] = [
    ['address', 'address', /heap-use-after-free/],
    ['undefined', 'address', /signed integer overflow/],
    ['leak', 'address', /LeakSanitizer: detected memory leaks/],
    ['thread', 'thread', /data race/],
  ]
  for (const sanitizer of ['address', 'thread'] as const) {
    await build('--tests', buildFlag[sanitizer])
    await build(buildFlag[sanitizer])
  }
  for (const [fault, sanitizer, found] of faults) {
    for (const where of ['core', 'node']) {
      // Node leaks at its end by design, so leaks are looked for in the core's program alone.
      if (where === 'node' && fault === 'leak') continue
      const place = mkdtempSync(join(folder, 'check-'))
      const env = { ...reporting(join(place, 'report'), where === 'core'), SVC_ENGINE_FAULT: fault }
      const { code } =
        where === 'core'
          ? await run(coreProgram(sanitizer), ['histogram'], { env })
          : await run(process.execPath, load, { env: { ...env, ...addonEnv(sanitizer) } })
      const told = reports(place).join('\n')
      if (code === 0 || !found.test(told))
        throw new Error(`a fault on purpose (${fault}, ${where}) was not found: code ${code}, ${told}`)
    }
  }
  return { code: 0, out: '', err: '' }
}

const streamTests = ['stream', 'first-light', 'sound', 'loss', 'clients', 'ends', 'hostile']
const both = ['address', 'thread'] as const
const steps: readonly [name: string, step: Step][] = [
  ['faults on purpose', check],
  ...both.map((each): [string, Step] => [`core, ${each}`, core(each)]),
  ...both.map((each): [string, Step] => [`addon, ${each}`, addon(each)]),
  ...both.flatMap(each =>
    streamTests.map((name): [string, Step] => [`e2e ${name}, ${each}`, streams(each, name)]),
  ),
]

export const sanitizerSweep: Sweep = {
  name: 'sanitizers',
  rounds: steps.length,
  async begin() {
    return {
      async round(_, round) {
        const [name, step] = steps[round % steps.length]!
        const folder = mkdtempSync(join(tmpdir(), 'svc-soak-sanitizers-'))
        const logs = mkdtempSync(join(folder, 'logs-'))
        try {
          const { code, out, err } = await step(join(logs, 'report'), folder)
          const found = reports(logs)
          if (found.length) throw new Error(`${name}: ${found.join('\n').slice(0, 8000)}`)
          if (code !== 0) throw new Error(`${name}: ${`${out}\n${err}`.slice(-8000)}`)
        } catch (error) {
          throw new Error(`${name}: ${(error as Error).message}`)
        } finally {
          rmSync(folder, { recursive: true, force: true })
        }
        return name
      },
      async end() {},
    }
  },
}
