// `npm run bench`: ours beside its peers on the same machine in the same run, as ratios; tables, targets, raw figures.
//
// npm run bench -- [--only NAME,...] [--rounds N] [--seconds N] [--flips N] [--json FILE]
//   --only     some of isolates, api, cpu, flash, still, first-frame, memory, storm, packages
//   --rounds   how often each pipeline is measured, default 3; the middle counts
//   --seconds  how long each measurement takes, default 4
//   --flips    sudden changes of the screen for each pipeline and scene, default 120
//   --json     all figures of all rounds, into a file
// Leaves with 0 whatever the figures are; with 1 only if something could not be measured.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { serve, viewer } from '../harness/host.ts'
import { buildPlayer } from '../player/build.ts'
import { apiReport, benchApi } from './api.ts'
import { benchCpu, cpuReport } from './cpu.ts'
import { benchFlash, flashReport } from './flash.ts'
import { benchIsolates, isolatesReport } from './isolates.ts'
import { isMet, type Target, table } from './measure.ts'
import { benchFirstFrame, benchMemory, sessionsReport } from './sessions.ts'
import type { Mode } from './stage.ts'
import { benchStill, stillReport } from './still.ts'
import { benchStorm, packagesOn, requestsTo, stormReport } from './storm.ts'

const streamed = ['cpu', 'flash', 'still', 'first-frame', 'memory', 'storm', 'packages']
const names = ['isolates', 'api', ...streamed]
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: names.join(',') },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    flips: { type: 'string', default: '120' },
    json: { type: 'string' },
  },
})
const only = values.only.split(',')
const count = (name: 'rounds' | 'seconds' | 'flips') => {
  const number = Number(values[name])
  if (Number.isInteger(number) && number > 0) return number
  process.stderr.write(`bench: --${name} must be a positive whole number\n`)
  process.exit(2)
}
const [rounds, seconds, flips] = [count('rounds'), count('seconds'), count('flips')]
const unknown = only.find(name => !names.includes(name))
if (unknown !== undefined) {
  process.stderr.write(`bench: --only knows no "${unknown}"; it may be: ${names.join(', ')}\n`)
  process.exit(2)
}

const small: Mode = { width: 1280, height: 720, hz: 60, bitrateKbps: 8000 }
const large: Mode = { width: 1920, height: 1080, hz: 60, bitrateKbps: 16000 }

const startedMs = Date.now()
const loadBefore = loadavg()[0]!
const say = (line: string) =>
  process.stderr.write(`  ${((Date.now() - startedMs) / 1000).toFixed(0).padStart(3)} s  ${line}\n`)
const raw: Record<string, unknown> = {}
const tables: string[] = []
const targets: Target[] = []
const failures: string[] = []

/** One benchmark; what goes wrong in it must not take the others' figures away. */
async function measured<T>(
  name: string,
  measure: () => Promise<T>,
  reportOf: (result: T) => { rows: string[][]; targets: Target[] },
): Promise<void> {
  if (!only.includes(name)) return
  try {
    const result = await measure()
    raw[name] = result
    const report = reportOf(result)
    tables.push(table(report.rows))
    targets.push(...report.targets)
  } catch (error) {
    failures.push(`${name}: ${error instanceof Error ? error.stack : error}`)
    say(failures.at(-1)!)
  }
}

/** What is measured on one host, by one paired viewer. */
async function measureStreams(): Promise<void> {
  const player = await buildPlayer()
  const host = await serve()
  const identity = mkdtempSync(join(tmpdir(), 'svc-bench-identity-'))
  const ours = { host, identity }
  try {
    const paired = await viewer(identity, 'pair', `127.0.0.1:${host.nativePort}`, '--pin', await host.arm())
    if (paired.code !== 0) throw new Error(`pairing failed: ${paired.err}`)
    // Memory first: what other sessions have left behind must not hide what these do.
    await measured(
      'memory',
      () => benchMemory(ours, player, small, 6, say),
      result => sessionsReport(small, undefined, result),
    )
    await measured(
      'first-frame',
      () => benchFirstFrame(ours, small, 5, say),
      result => sessionsReport(small, result, undefined),
    )
    await measured('cpu', () => benchCpu(ours, player, [small, large], rounds, seconds, say), cpuReport)
    await measured(
      'flash',
      () => benchFlash(ours, player, small, flips, say),
      result => flashReport(small, result),
    )
    await measured(
      'still',
      () => benchStill(ours, player, large, rounds, seconds, say),
      result => stillReport(large, result),
    )
    await measured(
      'storm',
      () => benchStorm(ours, player, small, requestsTo(host, 2000), say),
      result => stormReport(small, result),
    )
    await measured(
      'packages',
      async () => benchStorm(ours, player, small, await packagesOn(host, identity, 3), say),
      result => stormReport(small, result),
    )
  } finally {
    words = host.output().slice(-3000)
    await host.stop()
    rmSync(identity, { recursive: true, force: true })
  }
}

let words = ''
await measured('isolates', () => benchIsolates(rounds, say), isolatesReport)
await measured('api', () => benchApi(rounds, seconds, say), apiReport)
if (streamed.some(name => only.includes(name))) await measureStreams()

const rows = targets.map(target => [
  target.what,
  target.measured.toFixed(2),
  `<= ${target.atMost.toFixed(2)}`,
  isMet(target) ? 'met' : 'MISSED',
])
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, loadBefore, loadAfter: loadavg()[0]! }
// What others do on the machine cannot be taken out of the figures; it can be told.
process.stdout.write(
  `${machine.cpu}, ${machine.cores} cores; load ${loadBefore.toFixed(1)} before, ${machine.loadAfter.toFixed(1)} after` +
    `${loadBefore > 0.5 ? ': others were at work, so take the times with care' : ''}\n\n`,
)
process.stdout.write(`${tables.join('\n\n')}\n\n${table([['Target', 'measured', 'at most', ''], ...rows])}\n`)
for (const failure of failures) process.stderr.write(`bench: could not measure ${failure}\n`)
if (failures.length && words) process.stderr.write(`the host's last words:\n${words}\n`)
if (values.json) {
  const held = targets.map(target => ({ ...target, isMet: isMet(target) }))
  writeFileSync(values.json, `${JSON.stringify({ machine, targets: held, raw, failures }, null, 2)}\n`)
}
if (failures.length) process.exitCode = 1
