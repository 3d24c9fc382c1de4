// `npm run soak`: the long sweeps, seeded and resumable, with a line for each round and a summary for each sweep.
//
// npm run soak -- [--sweep NAME] [--rounds N] [--seed N] [--state FILE]
// --state keeps how far each sweep has come; run again with the same file and seed to go on from there.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { hostileSweep } from './hostile.ts'
import { killSweep } from './kill.ts'
import { packageSweep } from './packages.ts'
import { pairingSweep } from './pairing.ts'
import { seeded } from './random.ts'
import { sanitizerSweep } from './sanitizers.ts'
import { toggleSweep } from './toggle.ts'

/** One sweep: `round` throws when what it proves does not hold, and says what it did. */
export interface Sweep {
  readonly name: string
  readonly rounds: number
  begin(): Promise<{ round(random: () => number, round: number): Promise<string>; end(): Promise<void> }>
}

/** What a state file keeps of a sweep with one seed. */
interface Progress {
  rounds: number
  failed: number
  seconds: number
}

const sweeps: readonly Sweep[] = [
  killSweep,
  packageSweep,
  toggleSweep,
  hostileSweep,
  pairingSweep,
  sanitizerSweep,
]

const { values } = parseArgs({
  options: {
    sweep: { type: 'string' },
    rounds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    state: { type: 'string' },
  },
})
const chosen = values.sweep ? sweeps.filter(({ name }) => name === values.sweep) : sweeps
const isCount = (text: string) => /^\d{1,9}$/.test(text)
const wrong =
  chosen.length === 0
    ? `no sweep ${values.sweep}; there are ${sweeps.map(({ name }) => name).join(', ')}`
    : [values.rounds ?? '1', values.seed].every(isCount)
      ? undefined
      : '--rounds and --seed are whole numbers'
if (wrong) {
  process.stderr.write(`soak: ${wrong}\n`)
  process.exit(2)
}

const seed = Number(values.seed)
const all: Record<string, Progress> =
  values.state && existsSync(values.state) ? JSON.parse(readFileSync(values.state, 'utf8')) : {}
const say = (text: string): void => void process.stdout.write(`soak ${text}\n`)
let failures = 0
let interrupted = false
// A second one ends it at once.
process.once('SIGINT', () => {
  interrupted = true
  process.stderr.write('soak: stops after this round\n')
})

for (const sweep of chosen) {
  if (interrupted) break
  const rounds = Number(values.rounds ?? sweep.rounds)
  const key = `${sweep.name}@${seed}`
  const progress = all[key] ?? { rounds: 0, failed: 0, seconds: 0 }
  all[key] = progress
  if (progress.rounds < rounds) {
    const running = await sweep.begin()
    try {
      while (progress.rounds < rounds && !interrupted) {
        const round = progress.rounds
        const began = performance.now()
        let done: string
        try {
          done = await running.round(seeded(seed * 1_000_003 + round), round)
        } catch (error) {
          progress.failed++
          done = 'FAILED'
          process.stderr.write(
            `soak: ${sweep.name}, seed ${seed}, round ${round}: ${(error as Error).stack}\n`,
          )
        }
        const seconds = (performance.now() - began) / 1000
        progress.rounds++
        progress.seconds += seconds
        if (values.state) writeFileSync(values.state, JSON.stringify(all))
        say(`${sweep.name} ${progress.rounds}/${rounds}: ${done}, ${seconds.toFixed(1)} s`)
      }
    } finally {
      await running.end()
    }
  }
  failures += progress.failed
  const spent = Math.round(progress.seconds)
  say(`${sweep.name}: ${progress.rounds} rounds, ${progress.failed} failed, seed ${seed}, ${spent} s`)
}
process.exit(failures || interrupted ? 1 : 0)
