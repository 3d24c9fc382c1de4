// Late or lost: told apart by time, whatever order datagrams come in.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createReordering } from './reordering.ts'

describe('reordering', () => {
  it('is how long a datagram comes after one that was sent later, and fades', () => {
    const reordering = createReordering()
    reordering.sample(0n, 0, true)
    reordering.sample(2n, 1000, true)
    reordering.sample(3n, 2000, true)
    reordering.sample(1n, 9000, false)
    expect(reordering.lateUs(9000)).toBe(8000)
    expect(reordering.lateUs(5_009_000)).toBe(4000)
  })

  it('counts what never came and nothing else, on any path', () => {
    const datagram = fc.record({ isLost: fc.boolean(), lateUs: fc.integer({ min: 0, max: 30_000 }) })
    fc.assert(
      fc.property(fc.array(datagram, { minLength: 1, maxLength: 300 }), datagrams => {
        const reordering = createReordering()
        const arriving = datagrams
          .map(({ isLost, lateUs }, counter) => ({ isLost, counter, atUs: counter * 2000 + lateUs }))
          .filter(({ isLost }) => !isLost)
          .sort((a, b) => a.atUs - b.atUs)
        let newest = -1
        let told = 0
        const lostUpTo = (counter: number) =>
          datagrams.slice(0, counter + 1).filter(({ isLost }) => isLost).length
        for (const { counter, atUs } of arriving) {
          reordering.sample(BigInt(counter), atUs, counter > newest)
          newest = Math.max(newest, counter)
          const lost = reordering.lost(atUs, 30_000)
          expect(lost).toBeGreaterThanOrEqual(told)
          expect(lost).toBeLessThanOrEqual(lostUpTo(newest))
          told = lost
        }
        // All but those that were sent after the last look at the gaps.
        const end = reordering.lost(10_000_000, 30_000)
        expect(end).toBeLessThanOrEqual(lostUpTo(newest))
        expect(end).toBeGreaterThanOrEqual(lostUpTo(newest - 40))
        expect(reordering.lateUs(0)).toBeLessThanOrEqual(30_000)
      }),
      { numRuns: 200, seed: 9 },
    )
  })
})
