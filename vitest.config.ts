// The test runner: four groups, so that what needs the whole machine runs one file at a time.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

const conditions = ['svc-source', 'node', 'import', 'module', 'default']
const exclude = ['**/node_modules/**', '**/dist/**', '**/build/**', '.cache/**']

const shared = {
  environment: 'node',
  pool: 'forks' as const,
  execArgv: ['--conditions=svc-source', '--disable-warning=ExperimentalWarning'],
  testTimeout: 20_000,
  hookTimeout: 30_000,
  // A machine that others use too has its slow moments.
  expect: { poll: { timeout: 5000 } },
  teardownTimeout: 20_000,
  exclude,
}

/** One group of test files with the limits that fit it. */
const group = (name: string, include: string[], extra: object = {}) => ({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: { ...shared, name, include, ...extra },
})

// These start hosts, X servers and encoders. Those that measure time would starve each other side by side; the others wait
// for most of theirs.
const together = ['test/e2e/{browser,ends,hostile,pairing,toggle}.test.ts', 'test/chaos/**/*.test.ts']
const alone = ['test/e2e/**/*.test.ts', 'test/conformance/**/*.test.ts']
const patient = { testTimeout: 120_000, hookTimeout: 120_000 }

export default defineConfig({
  test: {
    maxWorkers: Math.max(2, Math.min(4, availableParallelism())),
    passWithNoTests: false,
    reporters: ['default', ...(process.env['SVC_TALLY'] ? ['./setup/tally-reporter.mjs'] : [])],
    projects: [
      group(
        'parts',
        ['test/**/*.test.ts', 'extensions/**/*.test.ts', 'sdk/**/*.test.ts', 'examples/**/*.test.ts'],
        {
          exclude: [...exclude, ...together, ...alone],
          sequence: { groupOrder: 0 },
        },
      ),
      group('native', ['native/**/*.test.ts'], {
        testTimeout: 60_000,
        sequence: { groupOrder: 2 },
      }),
      group('together', together, { ...patient, sequence: { groupOrder: 2 } }),
      group('alone', alone, {
        ...patient,
        exclude: [...exclude, ...together],
        fileParallelism: false,
        sequence: { groupOrder: 3 },
      }),
    ],
  },
})
