// `npm run check`: types, format and lint, the contract tests, dead code. All are run, so one run shows all there is.
import { spawnSync } from 'node:child_process'

const node = process.execPath
const checks = [
  { what: 'types', command: node, args: ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.'] },
  { what: 'format and lint', command: 'node_modules/.bin/biome', args: ['ci', '--error-on-warnings', '.'] },
  {
    what: 'contracts',
    command: node,
    // The two that take long start hosts by the dozen, and are of `npm test` alone.
    args: [
      ...[...process.execArgv, 'node_modules/vitest/vitest.mjs', 'run', 'test/contract'],
      ...['--exclude', '**/guide.test.ts', '--exclude', '**/lanes-matrix.test.ts'],
    ],
  },
  { what: 'dead code', command: node, args: ['node_modules/knip/bin/knip.js'] },
]

const failed = checks.filter(({ what, command, args }) => {
  const began = performance.now()
  console.log(`check: ${what}`)
  const { status, signal } = spawnSync(command, args, { stdio: 'inherit' })
  if (signal) process.exit(1)
  console.log(
    `check: ${what} ${status === 0 ? 'passed' : 'FAILED'} in ${((performance.now() - began) / 1000).toFixed(1)} s`,
  )
  return status !== 0
})

if (failed.length > 0) {
  console.log(`check: failed: ${failed.map(({ what }) => what).join(', ')}`)
  process.exit(1)
}
console.log('check: all passed')
