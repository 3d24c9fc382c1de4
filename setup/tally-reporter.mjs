// A vitest reporter whose one plain line closes the run: how many tests passed and how many failed.

/** @typedef {{ children: { allTests(): Iterable<{ result(): { state: string } }> }, state(): string }} ModuleLike */

export default class TallyReporter {
  /**
   * @param {readonly ModuleLike[]} modules
   * @param {readonly unknown[]} strayErrors
   */
  onTestRunEnd(modules, strayErrors) {
    const tally = { passed: 0, failed: strayErrors.length, skipped: 0 }
    for (const module of modules) {
      const states = [...module.children.allTests()].map(test => test.result().state)
      const failed = states.filter(state => state === 'failed').length
      const passed = states.filter(state => state === 'passed').length
      // A file that cannot even be read has no tests, yet it failed.
      tally.failed += failed === 0 && module.state() === 'failed' ? 1 : failed
      tally.passed += passed
      tally.skipped += states.length - passed - failed
    }
    const skipped = tally.skipped ? `, ${tally.skipped} skipped` : ''
    console.log(`${tally.passed} passed, ${tally.failed} failed${skipped}`)
  }
}
