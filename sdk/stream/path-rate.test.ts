// The path's rate from how datagrams that left together arrive: slow paths, fast ones, losses, heaps.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createPathRate } from './path-rate.ts'

/** Blocks of 12 shards of 1250 bytes, each shard after the one before by so many microseconds. */
const arrive = (
  spacingsUs: readonly number[],
  isThere: (block: number, idx: number) => boolean = () => true,
) => {
  const rate = createPathRate()
  for (const [frame, us] of spacingsUs.entries()) {
    for (let idx = 0; idx < 12; idx++) {
      if (isThere(frame, idx)) rate.sample({ frame, block: 0, idx }, 1250, frame * 16_667 + idx * us)
    }
  }
  return rate.kbps
}
const times = (count: number, us: number) => new Array<number>(count).fill(us)

describe('the rate of the path', () => {
  it('is unknown at first, and then what arrives in a time', () => {
    expect(arrive(times(5, 400))).toBe(0)
    expect(arrive(times(6, 400))).toBe(25_000)
    expect(arrive(times(30, 100))).toBe(100_000)
  })
  it('is that of the newest blocks', () => {
    expect(arrive([...times(30, 400), ...times(20, 200)])).toBe(50_000)
  })
  it('is not made of single heaps, nor of datagrams that are lost', () => {
    expect(arrive(times(30, 400).map((us, i) => (i % 3 === 0 ? 1 : us)))).toBe(25_000)
    expect(arrive(times(30, 400), (_, idx) => idx % 3 !== 1)).toBe(25_000)
  })
  it('is not told by small blocks', () => {
    expect(arrive(times(30, 400), (_, idx) => idx < 5)).toBe(0)
  })
  it('is a finite number whatever comes in whatever order', () => {
    const shard = fc.record({ frame: fc.nat(9), block: fc.nat(3), idx: fc.nat(99), atUs: fc.nat(1_000_000) })
    fc.assert(
      fc.property(fc.array(shard, { maxLength: 400 }), shards => {
        const rate = createPathRate()
        for (const { atUs, ...each } of shards) rate.sample(each, 1250, atUs)
        expect(rate.kbps).toBeGreaterThanOrEqual(0)
        expect(rate.kbps).toBeLessThanOrEqual(2_000_000)
      }),
      { numRuns: 200, seed: 4 },
    )
  })
})
