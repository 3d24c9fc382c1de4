// The lock installs on every machine. Reason: `npm ci` refuses a lock that lacks another platform's optional package,
// and a download address in it ties everyone to one registry. Exception: none; setup/complete-lock.mjs mends both.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Locked {
  resolved?: string
  optionalDependencies?: Record<string, string>
}

const packages = Object.entries(
  JSON.parse(readFileSync('package-lock.json', 'utf8')).packages as Record<string, Locked>,
)
const paths = new Set(packages.map(([path]) => path))

test('every optional package is in the lock, and no download address', () => {
  expect(packages.length).toBeGreaterThan(100)
  const absent = packages.flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      name => !paths.has(`node_modules/${name}`) && !paths.has(`${path}/node_modules/${name}`),
    ),
  )
  expect(absent).toEqual([])
  expect(packages.filter(([, { resolved }]) => resolved?.includes('://')).map(([path]) => path)).toEqual([])
})
