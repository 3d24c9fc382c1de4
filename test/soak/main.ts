// `npm run soak`: the long sweeps, seeded and resumable, with a summary line for each.
//
// npm run soak -- [--sweep NAME] [--rounds N] [--seed N] [--state FILE]
// --state keeps how far each sweep has come; run again with the same file and seed to go on from there.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { hostileSweep } from './hostile.ts'
import { killSweep } from './kill.ts'
import { seeded } from './random.ts'
import { sanitizerSweep } from './sanitizers.ts'

/** One sweep: `round` throws when what it proves does not hold. */
export interface Sweep {
  readonly name: string
  readonly rounds: number
  begin(): Promise<{ round(random: () => number): Promise<void>; end(): Promise<void> }>
}

const sweeps: readonly Sweep[] = [killSweep, hostileSweep, sanitizerSweep]

const { values } = parseArgs({
  options: {
    sweep: { type: 'string' },
    rounds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    state: { type: 'string' },
  },
})
const chosen = values.sweep ? sweeps.filter(({ name }) => name === values.sweep) : sweeps
if (chosen.length === 0) {
  process.stderr.write(
    `soak: no sweep ${values.sweep}; there are ${sweeps.map(({ name }) => name).join(', ')}\n`,
  )
  process.exit(2)
}

const seed = Number(values.seed)
const done: Record<string, number> =
  values.state && existsSync(values.state) ? JSON.parse(readFileSync(values.state, 'utf8')) : {}
let failures = 0

for (const sweep of chosen) {
  const rounds = Number(values.rounds ?? sweep.rounds)
  const key = `${sweep.name}@${seed}`
  const began = Date.now()
  let failed = 0
  const running = await sweep.begin()
  try {
    for (let round = done[key] ?? 0; round < rounds; round++) {
      try {
        await running.round(seeded(seed * 1_000_003 + round))
      } catch (error) {
        failed++
        process.stderr.write(`soak: ${sweep.name}, seed ${seed}, round ${round}: ${(error as Error).stack}\n`)
      }
      done[key] = round + 1
      if (values.state) writeFileSync(values.state, JSON.stringify(done))
    }
  } finally {
    await running.end()
  }
  failures += failed
  const seconds = Math.round((Date.now() - began) / 1000)
  process.stdout.write(`soak ${sweep.name}: ${rounds} rounds, ${failed} failed, seed ${seed}, ${seconds} s\n`)
}
process.exit(failures ? 1 : 0)
