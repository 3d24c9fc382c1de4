// `npm run bench`: ours beside its peers on the same machine in the same run, as ratios; a table, and JSON with the raw rounds.
//
// npm run bench -- [--rounds N] [--seconds N] [--json FILE]
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { table } from './measure.ts'
import { benchPipelines } from './pipelines.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '8' },
    json: { type: 'string' },
  },
})

const cases = [
  { width: 1280, height: 720, hz: 60, bitrateKbps: 8000 },
  { width: 1920, height: 1080, hz: 60, bitrateKbps: 16000 },
]
/** CPU a frame, ours over ffmpeg's: what the project holds itself to. */
const targetRatio = 0.75

const pipelines = await benchPipelines(cases, Number(values.rounds), Number(values.seconds))

const rows = [['pipeline', 'case', 'CPU ms/frame', 'x ffmpeg', 'fps', 'Mbit/s']]
let missed = 0
for (const { case: c, middle } of pipelines) {
  const reference = middle.find(({ name }) => name === 'ffmpeg x11grab')?.cpuMsPerFrame ?? Number.NaN
  for (const { name, cpuMsPerFrame, fps, mbps } of middle) {
    const ratio = cpuMsPerFrame / reference
    if (name === 'svc-host' && !(ratio <= targetRatio)) missed++
    rows.push([
      name,
      `${c.width}x${c.height}@${c.hz}`,
      cpuMsPerFrame.toFixed(2),
      ratio.toFixed(2),
      fps.toFixed(1),
      mbps.toFixed(1),
    ])
  }
}
process.stdout.write(`${table(rows)}\n`)
process.stdout.write(
  `target: CPU a frame at most ${targetRatio} x ffmpeg, sealed and with parity: ${missed ? 'missed' : 'met'}\n`,
)
if (values.json) {
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length }
  writeFileSync(values.json, `${JSON.stringify({ machine, targetRatio, pipelines }, null, 2)}\n`)
}
