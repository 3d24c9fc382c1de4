// How fast new devices of one address come onto the list.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createKnockRate } from './knock-rate.ts'

test('thirty-two at once, then one a second, for each address by itself', () => {
  const rate = createKnockRate()
  const take = (nowMs: number, address = 'fd00::1') => rate.take(address, nowMs)
  expect(Array.from({ length: 32 }, () => take(0))).toEqual(Array(32).fill(0))
  expect([take(0), take(0, 'fd00::2'), take(400)]).toEqual([1000, 1000, 600])
  expect(take(0, 'fd00:1::1')).toBe(0)
  expect([take(1000), take(1000), take(2500), take(2500)]).toEqual([0, 1000, 0, 500])
})

test('in no stretch of time more than that, whatever else knocks', () => {
  const knock = fc.record({ after: fc.nat(900), from: fc.integer({ min: -300, max: 300 }) })
  fc.assert(
    fc.property(fc.array(knock, { maxLength: 400, size: 'max' }), knocks => {
      const rate = createKnockRate()
      const taken: number[] = []
      let now = 0
      for (const { after, from } of knocks) {
        now += after
        // Half of them come from one address, the others from everywhere.
        const address = from < 0 ? '10.0.0.1' : `10.1.${from >> 8}.${from & 255}`
        if (rate.take(address, now) === 0 && from < 0) taken.push(now)
      }
      for (let i = 32; i < taken.length; i++) {
        for (let first = 0; first + 32 <= i; first++) {
          expect(i - first + 1).toBeLessThanOrEqual(33 + (taken[i]! - taken[first]!) / 1000)
        }
      }
    }),
    { numRuns: 30 },
  )
})
