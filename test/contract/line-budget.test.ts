// Line budgets. Reason: a file that can be read in one sitting is read. Exception: none; a limit is raised only in a
// change that says why. Blanks and comments count.
import { expect, test } from 'vitest'
import { isTest, linesOf, readSources, type Source } from './sources.ts'

const kernel = readSources('kernel').filter(({ path }) => !isTest(path))
const realms = kernel.filter(({ path }) => path.startsWith('kernel/realms/'))
const core = kernel.filter(source => !realms.includes(source))
const extensions = readSources('extensions').filter(({ path }) => !isTest(path))
const authorApi = readSources('sdk').filter(({ path }) => /^sdk\/[^/]+\.ts$/.test(path) && !isTest(path))

const total = (sources: readonly Source[]): number =>
  sources.reduce((sum, source) => sum + linesOf(source), 0)
const over = (sources: readonly Source[], limit: number): string[] =>
  sources.filter(s => linesOf(s) > limit).map(s => `${s.path}: ${linesOf(s)} lines, ${limit} allowed`)

// The core was planned at 2,000 lines and came out at 3,800 in about thirty-five files: what took the room is what a host must
// survive rather than what it can do. Journal, crash undo and confined processes (700), hostile HTTP and TLS (800), five
// layers of settings with sentences for each mistake (350), tolerant documents and identity (350). Raised once, for that; and by 30 for sessions that cannot see each other
// (confine.ts) and a stop that whoever listens hears the end of. By 20, after thinning, for what can be installed and updated while the
// host runs: looking at the folders again (roster.ts), and seals that say whether a folder is still what it was (examine.ts).
test('the kernel fits its budget', () => {
  expect(total(core), 'kernel/ without realms/').toBeLessThanOrEqual(3850)
  expect(total(realms), 'kernel/realms/').toBeLessThanOrEqual(700)
  expect(over(kernel, 250)).toEqual([])
})

// Planned at 300 without its docstrings; every public member has one now, and they are the reference that authors read.
// Raised from 500 for the log as a service, and for the formatter's longer lists; by 30 for what an installer needs.
test('the author API fits its budget', () => {
  expect(authorApi.length).toBeGreaterThan(3)
  expect(total(authorApi), authorApi.map(s => `${s.path} ${linesOf(s)}`).join(', ')).toBeLessThanOrEqual(600)
})

test('no file of an extension is over 300 lines', () => {
  expect(over(extensions, 300)).toEqual([])
})

test('every file opens with a sentence on what it is for', () => {
  const everything = readSources('kernel', 'sdk', 'extensions', 'native', 'examples', 'test', 'setup')
  const mute = everything.filter(({ text }) => !/^(#!.*\n)?(\/\/ |\/\*\*? ?\n?)\S*/.test(text))
  expect(mute.map(({ path }) => path)).toEqual([])
})
