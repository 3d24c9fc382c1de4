// Reassembly under seeded loss, reordering and duplication: what parity can mend is mended, and nothing else comes out.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createFrameAssembler, lossDelayUs, lossDistance, type VideoFrame } from './frame-assembler.ts'
import { parityOf } from './reed-solomon.ts'

interface Shape {
  readonly frame: number
  readonly blocks: readonly { readonly data: Buffer; readonly k: number; readonly m: number }[]
  readonly flags?: number
}

/** What the host would send: section 5.1, written out here once more on purpose. */
const payloadsOf = ({ frame, blocks, flags = 0 }: Shape): Buffer[][] =>
  blocks.map(({ data, k, m }, b) => {
    const size = Math.ceil(data.length / k)
    const padded = Buffer.concat([data, Buffer.alloc(k * size - data.length)])
    const shards = Array.from({ length: k }, (_, i) => padded.subarray(i * size, (i + 1) * size))
    return [...shards, ...parityOf(shards, m)].map((shard, idx) => {
      const head = Buffer.alloc(24)
      head.writeUInt32BE(frame, 0)
      head.set([b, flags | (b === blocks.length - 1 ? 2 : 0), idx, k, m, 1], 4)
      head.writeUInt32BE(data.length, 12)
      head.writeBigUInt64BE(BigInt(frame) * 16_667n, 16)
      return Buffer.concat([head, shard])
    })
  })
const simple = (frame: number, flags = 0, k = 2, m = 0): Shape => ({
  frame,
  flags,
  blocks: [{ data: Buffer.from(`frame ${frame} `.repeat(4)), k, m }],
})
const sent = (shape: Shape) => payloadsOf(shape).flat()
const numbers = (frames: readonly VideoFrame[]) => frames.map(frame => frame.frame)
const dataOf = (shape: Shape) => Buffer.concat(shape.blocks.map(block => block.data))

const block = fc
  .record({
    k: fc.integer({ min: 1, max: 12 }),
    m: fc.integer({ min: 0, max: 6 }),
    extra: fc.integer({ min: 0, max: 90 }),
  })
  .map(({ k, m, extra }) => ({ k, m, bytes: k + extra }))

describe('frames', () => {
  it('come out whole and in order whatever is lost within parity, reordered or repeated', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(block, { minLength: 1, maxLength: 4 }), {
          minLength: 1,
          maxLength: lossDistance - 1,
        }),
        fc.infiniteStream(fc.integer({ min: 0, max: 0x7fffffff })),
        (stream, dice) => {
          const roll = (n: number) => dice.next().value % n
          const shapes = stream.map((blocks, frame) => ({
            frame,
            flags: frame === 0 ? 1 : 0,
            blocks: blocks.map(b => ({
              ...b,
              data: Buffer.from(Array.from({ length: b.bytes }, () => roll(256))),
            })),
          }))
          const arriving: Buffer[] = []
          let lostData = 0
          for (const shape of shapes) {
            for (const [b, shards] of payloadsOf(shape).entries()) {
              const { k, m } = shape.blocks[b]!
              const lost = new Set<number>()
              for (let left = roll(m + 1); left > 0; left--) lost.add(roll(k + m))
              lostData += [...lost].filter(idx => idx < k).length
              for (const [idx, shard] of shards.entries()) {
                if (lost.has(idx)) continue
                for (let copies = roll(4) === 0 ? 2 : 1; copies > 0; copies--) {
                  arriving.splice(roll(arriving.length + 1), 0, shard)
                }
              }
            }
          }
          const assembler = createFrameAssembler()
          const out = arriving.flatMap(payload => assembler.push(payload, 1000))
          expect(numbers(out)).toEqual(shapes.map(shape => shape.frame))
          for (const [i, frame] of out.entries()) expect(frame.data.equals(dataOf(shapes[i]!))).toBe(true)
          expect(assembler.counts).toMatchObject({ lostFrames: 0, malformed: 0, frames: shapes.length })
          expect(assembler.counts.recovered).toBeGreaterThanOrEqual(lostData)
          expect(assembler.heldBytes).toBe(0)
        },
      ),
      { numRuns: 150, seed: 7 },
    )
  })

  it('never come out wrong at any loss: each is byte for byte a frame that was sent, and numbers only rise', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 99 }), { minLength: 400, maxLength: 400 }), rolls => {
        const assembler = createFrameAssembler()
        const shapes = Array.from({ length: 40 }, (_, frame) => simple(frame, frame % 10 === 0 ? 1 : 0, 3, 1))
        let n = 0
        let last = -1
        for (const [i, shape] of shapes.entries()) {
          for (const payload of sent(shape)) {
            if (rolls[n++ % rolls.length]! < 20) continue
            for (const frame of assembler.push(payload, i * 16_667)) {
              expect(frame.frame).toBeGreaterThan(last)
              expect(frame.data.equals(dataOf(shapes[frame.frame]!))).toBe(true)
              // After a gap only a keyframe may be the next.
              if (frame.frame !== last + 1) expect(frame.isKeyframe).toBe(true)
              last = frame.frame
            }
          }
        }
        const { frames, lostFrames, droppedFrames } = assembler.counts
        expect(frames + lostFrames + droppedFrames).toBeLessThanOrEqual(40)
        expect(frames + lostFrames + droppedFrames).toBeGreaterThanOrEqual(40 - lossDistance)
      }),
      { numRuns: 60, seed: 11 },
    )
  })
})

describe('the loss rule', () => {
  it('gives a frame up 40 ms after a block of a later one was whole, and waits for a keyframe', () => {
    const assembler = createFrameAssembler()
    expect(numbers(sent(simple(0, 1)).flatMap(p => assembler.push(p, 0)))).toEqual([0])
    sent(simple(2)).map(p => assembler.push(p, 10_000))
    expect(assembler.deadlineUs).toBe(10_000 + lossDelayUs)
    expect(assembler.tick(10_000 + lossDelayUs - 1)).toEqual([])
    expect(assembler.needsKeyframe).toBe(false)
    expect(assembler.tick(10_000 + lossDelayUs)).toEqual([])
    expect(assembler.needsKeyframe).toBe(true)
    expect(assembler.counts).toMatchObject({ lostFrames: 1, droppedFrames: 1 })
    // What was lost comes after all: too late.
    expect(sent(simple(1)).flatMap(p => assembler.push(p, 60_000))).toEqual([])
    expect(numbers(sent(simple(3)).flatMap(p => assembler.push(p, 61_000)))).toEqual([])
    expect(numbers(sent(simple(4, 1)).flatMap(p => assembler.push(p, 62_000)))).toEqual([4])
    expect(assembler.needsKeyframe).toBe(false)
  })
  it('waits for a frame that is only late', () => {
    const assembler = createFrameAssembler()
    sent(simple(0, 1)).map(p => assembler.push(p, 0))
    sent(simple(2)).map(p => assembler.push(p, 1000))
    expect(numbers(sent(simple(1)).flatMap(p => assembler.push(p, 39_000)))).toEqual([1, 2])
    expect(assembler.counts.lostFrames).toBe(0)
  })
  it('gives a frame up when the one 8 later arrives, and at once, however far ahead it is', () => {
    const assembler = createFrameAssembler()
    sent(simple(0, 1)).map(p => assembler.push(p, 0))
    const halves = [1, 2, 3, 4, 5, 6, 7, 8].map(frame => sent(simple(frame))[0]!)
    halves.map(p => assembler.push(p, 1))
    expect(assembler.counts.lostFrames).toBe(0)
    assembler.push(sent(simple(9))[0]!, 2)
    expect(assembler.counts.lostFrames).toBe(1)
    assembler.push(sent(simple(0xffffffff))[0]!, 3)
    expect(assembler.counts.lostFrames).toBe(0xffffffff - lossDistance)
  })
  it('goes on at once with a whole keyframe when nothing older is of use', () => {
    const assembler = createFrameAssembler()
    sent(simple(1)).map(p => assembler.push(p, 0))
    expect(numbers(sent(simple(3, 1)).flatMap(p => assembler.push(p, 1)))).toEqual([3])
    expect(assembler.counts).toMatchObject({ lostFrames: 2, droppedFrames: 1 })
  })
})

describe('recovery without a keyframe', () => {
  const arrive = (assembler: ReturnType<typeof createFrameAssembler>, shape: Shape, nowUs: number) =>
    sent(shape).flatMap(p => assembler.push(p, nowUs))
  const recovers = 8

  it('asks once patience has run out, and waits no longer than until the answer comes', () => {
    const assembler = createFrameAssembler()
    assembler.patienceUs = 5000
    arrive(assembler, simple(0, 1), 0)
    arrive(assembler, simple(2), 20_000)
    expect(assembler.lacking(24_000)).toBeUndefined()
    expect(assembler.deadlineUs).toBe(25_000)
    expect(assembler.lacking(25_000)).toEqual({ firstLost: 1 })
    expect(assembler.deadlineUs).toBe(20_000 + lossDelayUs)
    const out = arrive(assembler, simple(3, recovers), 30_000)
    expect(out.map(({ frame, isKeyframe, isRecovery }) => ({ frame, isKeyframe, isRecovery }))).toEqual([
      { frame: 3, isKeyframe: false, isRecovery: true },
    ])
    expect(assembler.lacking(90_000)).toBeUndefined()
    expect(assembler.counts).toMatchObject({ lostFrames: 1, droppedFrames: 1, recoveries: 1 })
  })
  it('asks as soon as too much of a frame has been overtaken, by its own shards or the first of a later one', () => {
    const shape = (frame: number): Shape => simple(frame, frame === 0 ? 1 : 0, 4, 2)
    /** When to ask about frame 1, of which these shards come at 10 ms, 11 ms and so on, and then frame 2 at 30 ms. */
    const asksUs = (idxs: readonly number[]) => {
      const assembler = createFrameAssembler()
      assembler.patienceUs = 5000
      arrive(assembler, shape(0), 0)
      for (const [i, idx] of idxs.entries()) assembler.push(sent(shape(1))[idx]!, 10_000 + i * 1000)
      if (assembler.deadlineUs === undefined) assembler.push(sent(shape(2))[0]!, 30_000)
      const dueUs = assembler.deadlineUs
      if (dueUs === undefined) return undefined
      expect(assembler.lacking(dueUs - 1)).toBeUndefined()
      expect(assembler.lacking(dueUs)).toEqual({ firstLost: 1 })
      return dueUs
    }
    expect(asksUs([0, 1, 2, 3])).toBeUndefined()
    expect(asksUs([1, 3, 4, 5])).toBeUndefined()
    expect(asksUs([0, 5])).toBe(11_000 + 5000)
    expect(asksUs([3, 0, 5])).toBe(12_000 + 5000)
    // The tail is missing: nothing but a later frame tells.
    expect(asksUs([0, 1])).toBe(30_000 + 5000)
    expect(asksUs([])).toBe(30_000 + 5000)
    // Overtaken, but then it came: all begins anew.
    const late = createFrameAssembler()
    arrive(late, shape(0), 0)
    for (const idx of [4, 0]) late.push(sent(shape(1))[idx]!, 10_000)
    expect(late.deadlineUs).toBe(10_000 + lossDelayUs)
    late.push(sent(shape(1))[1]!, 11_000)
    expect(late.deadlineUs).toBeUndefined()
  })
  it('asks about the last frame before a still screen when the host says that it has left', () => {
    const assembler = createFrameAssembler()
    assembler.patienceUs = 5000
    arrive(assembler, simple(0, 1), 0)
    expect(assembler.announce(0, 20_000)).toEqual([])
    expect(assembler.deadlineUs).toBeUndefined()
    assembler.announce(2, 30_000)
    assembler.announce(2, 34_000)
    expect(assembler.lacking(34_999)).toBeUndefined()
    expect(assembler.lacking(35_000)).toEqual({ firstLost: 1 })
    expect(assembler.deadlineUs).toBe(30_000 + lossDelayUs)
    assembler.tick(30_000 + lossDelayUs)
    expect(assembler.counts.lostFrames).toBe(2)
    expect(assembler.lacking(90_000)).toEqual({ firstLost: 1 })
    expect(numbers(arrive(assembler, simple(3, recovers), 91_000))).toEqual([3])
  })
  it('takes what is announced for no more than a number, whatever it is', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0xffffffff), { maxLength: 40 }), frames => {
        const assembler = createFrameAssembler()
        arrive(assembler, simple(0, 1), 0)
        for (const [i, frame] of frames.entries()) assembler.announce(frame, i * 30_000)
        const { frames: whole, lostFrames } = assembler.counts
        expect(whole + lostFrames).toBeLessThanOrEqual(Math.max(0, ...frames) + 1)
        expect(assembler.heldBytes).toBe(0)
      }),
      { numRuns: 100, seed: 5 },
    )
  })
  it('is no loss at all when what was asked about comes first', () => {
    const assembler = createFrameAssembler()
    assembler.patienceUs = 5000
    arrive(assembler, simple(0, 1), 0)
    arrive(assembler, simple(2), 20_000)
    expect(assembler.lacking(26_000)).toEqual({ firstLost: 1 })
    expect(numbers(arrive(assembler, simple(1), 27_000))).toEqual([1, 2])
    const [frame] = arrive(assembler, simple(3, recovers), 30_000)
    expect(frame).toMatchObject({ frame: 3, isRecovery: false })
    expect(assembler.counts.lostFrames).toBe(0)
  })
  it('goes on asking about the first frame lost when the answer is lost too', () => {
    const assembler = createFrameAssembler()
    arrive(assembler, simple(0, 1), 0)
    arrive(assembler, simple(2), 20_000)
    assembler.tick(60_000)
    expect(assembler.lacking(60_000)).toEqual({ firstLost: 1 })
    arrive(assembler, simple(5), 70_000)
    assembler.tick(120_000)
    expect(assembler.lacking(120_000)).toEqual({ firstLost: 1 })
    expect(numbers(arrive(assembler, simple(6, recovers), 121_000))).toEqual([6])
  })
  it('is not taken by a decoder that has nothing to build upon', () => {
    const fresh = createFrameAssembler()
    arrive(fresh, simple(1), 0)
    fresh.tick(lossDelayUs)
    expect(fresh.lacking(lossDelayUs)).toEqual({ firstLost: undefined })
    expect(arrive(fresh, simple(2, recovers), 50_000)).toEqual([])
    const behind = createFrameAssembler()
    arrive(behind, simple(0, 1), 0)
    behind.skipToKeyframe()
    expect(behind.lacking(1)).toEqual({ firstLost: undefined })
    expect(arrive(behind, simple(1, recovers), 2)).toEqual([])
    expect(numbers(arrive(behind, simple(2, 1), 3))).toEqual([2])
  })
})

describe('hostile payloads', () => {
  it('never throw, and hold no more than the limit', () => {
    const limit = 50_000
    const head = fc.tuple(
      fc.integer({ min: 0, max: 30 }),
      fc.integer({ min: 0, max: 255 }),
      fc.integer({ min: 0, max: 15 }),
      fc.integer({ min: 0, max: 8 }),
      fc.integer({ min: 0, max: 5 }),
      fc.integer({ min: 0, max: 4 }),
      fc.integer({ min: 0, max: 5000 }),
    )
    const payload = fc.oneof(
      fc.uint8Array({ maxLength: 80 }).map(bytes => Buffer.from(bytes)),
      head.map(([frame, blk, flags, idx, k, m, size]) => {
        const bytes = Buffer.alloc(24 + Math.ceil(size / Math.max(1, k)))
        bytes.writeUInt32BE(frame, 0)
        bytes.set([blk, flags, idx, k, m, 1], 4)
        bytes.writeUInt32BE(size, 12)
        return bytes
      }),
    )
    fc.assert(
      fc.property(fc.array(payload, { maxLength: 300 }), payloads => {
        const assembler = createFrameAssembler(limit)
        for (const [i, p] of payloads.entries()) {
          assembler.push(p, i * 500)
          expect(assembler.heldBytes).toBeLessThanOrEqual(limit)
          expect(assembler.heldBytes).toBeGreaterThanOrEqual(0)
        }
      }),
      { numRuns: 200, seed: 3 },
    )
  })
  it('of one block that contradict each other are dropped', () => {
    const assembler = createFrameAssembler()
    const [first] = sent(simple(0, 1, 2, 1))
    assembler.push(first!, 0)
    const other = sent(simple(0, 1, 3, 1))
    for (const p of other) assembler.push(p, 0)
    expect(assembler.counts.malformed).toBe(other.length)
  })
})
