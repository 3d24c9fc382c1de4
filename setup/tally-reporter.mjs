// A vitest reporter that writes how many tests passed and failed, for the plain last line of `npm test`.
import { mkdirSync, writeFileSync } from 'node:fs'

/** @typedef {{ children: { allTests(): Iterable<{ result(): { state: string } }> }, state(): string }} ModuleLike */

export default class TallyReporter {
  /**
   * @param {readonly ModuleLike[]} modules
   * @param {readonly unknown[]} strayErrors
   */
  onTestRunEnd(modules, strayErrors) {
    const tally = { passed: 0, failed: strayErrors.length, skipped: 0 }
    for (const module of modules) {
      let failedHere = 0
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') tally.passed++
        else if (state === 'failed') failedHere++
        else tally.skipped++
      }
      // A file that cannot even be read has no tests, yet it failed.
      if (failedHere === 0 && module.state() === 'failed') failedHere = 1
      tally.failed += failedHere
    }
    const to = process.env['SVC_TALLY']
    if (!to) return
    mkdirSync(new URL('../.cache/', import.meta.url), { recursive: true })
    writeFileSync(
      to,
      `${tally.passed} passed, ${tally.failed} failed${tally.skipped ? `, ${tally.skipped} skipped` : ''}\n`,
    )
  }
}
