// What comes over a bridge: whole packets whatever the pieces, and no bytes that make the reader keep or give too much.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPacketReader, encodePacket, type Packet, packetLimitBytes, parseStrict } from './packets.ts'

const number = fc.integer({ min: 0, max: 0xffffffff })
const packet: fc.Arbitrary<Packet> = fc.record({
  kind: fc.integer({ min: 0, max: 255 }),
  cell: number,
  seq: number,
  amount: number,
  text: fc.string({ unit: 'grapheme', maxLength: 300 }),
})

const inPieces = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const at = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...at, bytes.length].map((end, i) => bytes.subarray(at[i - 1] ?? 0, end))
}

test('packets come out as they went in, however the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(packet, { maxLength: 20 }), fc.array(fc.nat()), (packets, cuts) => {
      const read = createPacketReader()
      const bytes = Buffer.concat(packets.map(encodePacket))
      expect(inPieces(bytes, cuts).flatMap(piece => read(piece))).toEqual(packets)
    }),
  )
})

test('any bytes give packets within the limit, or one refusal', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 30 }), pieces => {
      const read = createPacketReader(100)
      try {
        for (const { text } of pieces.flatMap(piece => read(piece)))
          expect(Buffer.byteLength(text)).toBeLessThanOrEqual(300)
      } catch (error) {
        expect((error as Error).message).toMatch(
          /^a packet of \d+ bytes came over the bridge; 100 are allowed$/,
        )
      }
    }),
    { numRuns: 500 },
  )
})

test('a length over the limit is refused before its bytes have come', () => {
  const head = encodePacket({ kind: 1, cell: 1, seq: 1, amount: 0, text: '' })
  head.writeUInt32LE(packetLimitBytes + 1, 0)
  expect(() => createPacketReader()(head)).toThrow('1048577 bytes')
})

test('strict JSON is JSON without prototypes and without depths', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), value => {
      const text = JSON.stringify(value)
      if (!text.includes('__proto__')) expect(parseStrict(text)).toEqual(JSON.parse(text))
    }),
  )
  for (const key of ['__proto__', '\\u005f_proto__', '_\\u005Fproto\\u005f_']) {
    const value = parseStrict(`{"a": {"${key}": {"polluted": 1}, "b": "]]]["}}`) as { a: object }
    expect(Object.keys(value.a)).toEqual(['b'])
    expect(Object.getPrototypeOf(value.a)).toBe(Object.prototype)
  }
  expect(() => parseStrict('['.repeat(65) + ']'.repeat(65))).toThrow('over 64 levels')
  expect(() => parseStrict(`{"a":"\\\\"${'['.repeat(70)}`)).toThrow('over 64 levels')
  fc.assert(
    fc.property(fc.string(), text => {
      let plain: unknown
      try {
        plain = JSON.parse(text)
      } catch {
        expect(() => parseStrict(text)).toThrow()
        return
      }
      expect(parseStrict(text)).toEqual(plain)
    }),
  )
})
