// Input, sound, clock and queues: the small machines beside the picture.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { audioParity, createAudioAssembler, maxWaiting } from './audio-assembler.ts'
import { createBoundedQueue } from './bounded-queue.ts'
import { createClockSync } from './clock.ts'
import { createOpener, createSealer } from './datagram.ts'
import { createDelayVariation } from './delay-variation.ts'
import type { InputEvent } from './input-event.ts'
import { createInputSender, maxUnacknowledged } from './input-sender.ts'
import { parsePath } from './path-message.ts'

const key = (usage: number): InputEvent => ({ type: 'key', usage, down: true })

describe('datagrams of any bytes', () => {
  const of = {
    session: Buffer.alloc(8, 7),
    epoch: 1,
    stream: 1 as const,
    key: { key: Buffer.alloc(16, 1), iv: Buffer.alloc(12, 2) },
  }
  it('are dropped without an error, changed ones too, and the window is none the worse', () => {
    const sealed = createSealer(of)(Buffer.from('the one that counts'))
    const opener = createOpener(of)
    const change = fc.record({ at: fc.nat(sealed.length - 1), by: fc.integer({ min: 1, max: 255 }) })
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 100 }), change), input => {
        const bytes = Buffer.from(input instanceof Uint8Array ? input : sealed)
        if (!(input instanceof Uint8Array)) bytes[input.at]! ^= input.by
        expect(typeof opener.open(bytes)).toBe('string')
        expect(() => parsePath(bytes)).not.toThrow()
      }),
      { numRuns: 500, seed: 1 },
    )
    expect(opener.newest).toBe(-1n)
    expect(opener.open(sealed)).toMatchObject({ counter: 0n })
  })
})

describe('input', () => {
  /** Section 8's host: applies in order, each once, by number. */
  const createHost = () => {
    const applied: string[] = []
    return {
      applied,
      take: (payload: Buffer): number => {
        let at = 5
        for (let n = payload.readUInt32BE(0), left = payload[4]!; left > 0; left--, n++) {
          const end = at + 2 + payload[at + 1]!
          if (n === applied.length) applied.push(payload.subarray(at, end).toString('hex'))
          at = end
        }
        return applied.length
      },
    }
  }
  it('arrives once each and in order, whatever is lost in both directions', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ add: fc.nat(5), lost: fc.boolean(), ackLost: fc.boolean() }), { maxLength: 60 }),
        steps => {
          const sender = createInputSender()
          const host = createHost()
          const sent: string[] = []
          for (const { add, lost, ackLost } of steps) {
            for (let i = 0; i < add; i++) {
              const usage = sent.length
              sender.add(key(usage))
              sent.push(`0103${usage.toString(16).padStart(4, '0')}01`)
            }
            const payload = sender.payload(100)
            expect(payload?.length ?? 0).toBeLessThanOrEqual(100)
            if (!payload || lost) continue
            const next = host.take(payload)
            if (!ackLost) sender.acknowledge(next)
          }
          for (let rounds = 0; sender.waiting > 0 && rounds < 100; rounds++)
            sender.acknowledge(host.take(sender.payload(100)!))
          expect(host.applied).toEqual(sent)
        },
      ),
      { numRuns: 100, seed: 21 },
    )
  })
  it('joins movements that have not left, and never those that have', () => {
    const sender = createInputSender()
    sender.add({ type: 'pointer-move', dx: 1, dy: 2 })
    sender.add({ type: 'pointer-move', dx: 3, dy: -5 })
    expect(sender.payload(1000)!.toString('hex')).toBe('000000000103040004fffd')
    sender.add({ type: 'pointer-move', dx: 1, dy: 1 })
    expect(sender.waiting).toBe(2)
    sender.add({ type: 'pointer-move', dx: 32767, dy: 0 })
    expect(sender.waiting).toBe(3)
  })
  it('ignores acknowledgements of what was never sent, and is bounded', () => {
    const sender = createInputSender()
    for (let i = 0; i < maxUnacknowledged; i++) sender.add(key(4))
    expect(() => sender.add(key(4))).toThrow(expect.objectContaining({ code: 'input-overflow' }))
    sender.acknowledge(maxUnacknowledged + 1)
    expect(sender.waiting).toBe(maxUnacknowledged)
    sender.acknowledge(maxUnacknowledged)
    sender.acknowledge(3)
    expect(sender.waiting).toBe(0)
  })
  it('out of range is refused', () => {
    const sender = createInputSender()
    const bad: InputEvent[] = [
      key(70_000),
      { type: 'button', button: 0, down: true },
      { type: 'text', text: '' },
      { type: 'scroll', dx: 0.5, dy: 0 },
    ]
    for (const event of bad)
      expect(() => sender.add(event)).toThrow(expect.objectContaining({ code: 'bad-argument' }))
    expect(sender.waiting).toBe(0)
  })
})

describe('sound', () => {
  const group = (first: number, k: number, m: number): Buffer[] => {
    const packets = Array.from({ length: k }, (_, i) => Buffer.from(`packet ${first + i}`))
    return [...packets, ...audioParity(packets, m)].map((shard, idx) => {
      const head = Buffer.alloc(20)
      head.writeUInt32BE(first, 0)
      head.set([idx, k, m], 4)
      head.writeUInt16BE(shard.length, 8)
      head.writeBigUInt64BE(BigInt(first + (idx < k ? idx : 0)) * 5000n, 12)
      return Buffer.concat([head, shard])
    })
  }
  it('comes out in order and mended under seeded loss and reordering within a group', () => {
    const order = fc.array(fc.nat(1000), { minLength: 6, maxLength: 6 })
    fc.assert(
      fc.property(
        fc.array(fc.record({ order, lost: fc.tuple(fc.nat(5), fc.nat(5)) }), { minLength: 1, maxLength: 10 }),
        groups => {
          const assembler = createAudioAssembler(5)
          const out = groups.flatMap(({ order: keys, lost }, g) =>
            group(g * 4, 4, 2)
              .map((payload, i) => ({ payload, i, key: keys[i]! }))
              .filter(({ i }) => !lost.includes(i))
              // The first group's front decides where sound begins, so that one stays in order.
              .sort((a, b) => (g === 0 ? 0 : a.key - b.key))
              .flatMap(({ payload }) => assembler.push(payload, 0)),
          )
          expect(out.map(p => p.packet)).toEqual(Array.from({ length: groups.length * 4 }, (_, i) => i))
          for (const p of out)
            expect([p.data.toString(), p.captureUs]).toEqual([`packet ${p.packet}`, p.packet * 5000])
          expect(assembler.counts.lost).toBe(0)
        },
      ),
      { numRuns: 100, seed: 31 },
    )
  })
  it('goes on after a gap that nothing mends, by time or by number, and says how much is gone', () => {
    const assembler = createAudioAssembler(5)
    assembler.push(group(0, 1, 0)[0]!, 0)
    expect(assembler.push(group(5, 1, 0)[0]!, 1000)).toEqual([])
    expect(assembler.push(group(6, 1, 0)[0]!, 61_000).map(p => p.packet)).toEqual([5, 6])
    expect(assembler.counts.lost).toBe(4)
    const late = Array.from({ length: maxWaiting + 1 }, (_, i) =>
      assembler.push(group(100 + i, 1, 0)[0]!, 61_000),
    ).flat()
    expect(late).toHaveLength(maxWaiting + 1)
    expect(assembler.counts.lost).toBe(4 + 93)
  })
  it('payloads of any bytes never throw', () => {
    const payload = fc
      .tuple(fc.nat(40), fc.nat(6), fc.nat(5), fc.nat(4), fc.nat(12), fc.nat(12))
      .map(([packet, idx, k, m, bytes, size]) => {
        const made = Buffer.alloc(20 + size, 0xff)
        made.writeUInt32BE(packet, 0)
        made.set([idx, k, m, 0], 4)
        made.writeUInt16BE(bytes, 8)
        return made
      })
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            payload,
            fc.uint8Array({ maxLength: 40 }).map(b => Buffer.from(b)),
          ),
          { maxLength: 200 },
        ),
        payloads => {
          const assembler = createAudioAssembler(5)
          let last = -1
          for (const [i, p] of payloads.entries()) {
            for (const packet of assembler.push(p, i * 1000)) {
              expect(packet.packet).toBeGreaterThan(last)
              last = packet.packet
            }
          }
        },
      ),
      { numRuns: 200, seed: 33 },
    )
  })
})

describe('clock and delay', () => {
  it('takes the offset of the ping with the smallest round trip of the last 8', () => {
    const clock = createClockSync()
    expect(clock.offsetUs).toBeUndefined()
    // The host is 1,000,000 us ahead; the way there takes 100 us, the way back longer in all but one.
    for (const back of [900, 100, 5000]) clock.sample(0, 1_000_100, 1_000_150, 150 + back)
    expect(clock.offsetUs).toBe(1_000_000)
    expect(clock.rttUs).toBe(200)
    for (let i = 0; i < 8; i++) clock.sample(0, 1_000_100, 1_000_150, 650)
    expect(clock.rttUs).toBe(600)
    clock.sample(1000, 0, 0, 0)
    expect(clock.rttUs).toBe(600)
  })
  it('tells how far the delay has risen above its least, and forgets an old least', () => {
    const delay = createDelayVariation()
    delay.sample(0, 500)
    expect(delay.take(0)).toBe(0)
    delay.sample(1000, 1700)
    delay.sample(1000, 4000)
    expect(delay.take(100_000)).toBe(200)
    expect(delay.take(200_000)).toBe(0)
    delay.sample(0, 900)
    expect(delay.take(10_050_000)).toBe(200)
    delay.sample(0, 900)
    expect(delay.take(10_200_000)).toBe(0)
  })
})

describe('the queue to a slow consumer', () => {
  it('is bounded by items and bytes, and ends after what waits was taken', async () => {
    const queue = createBoundedQueue<string>(3, 10, item => item.length)
    expect(['aaaa', 'bbbb', 'cccc', 'd', 'e'].map(item => queue.push(item))).toEqual([
      true,
      true,
      false,
      true,
      false,
    ])
    queue.end()
    const out: string[] = []
    for await (const item of queue) out.push(item)
    expect(out).toEqual(['aaaa', 'bbbb', 'd'])
    expect(queue.push('f')).toBe(false)
  })
})
