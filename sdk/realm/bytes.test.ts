// Base64 and UTF-8 of the isolates, beside those of Node.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeUtf8, encodeUtf8, fromBase64, toBase64 } from './bytes.ts'

const bytes = fc.uint8Array({ maxLength: 200 })
const strange = fc.array(fc.constantFrom(0, 0x41, 0x80, 0xbf, 0xc2, 0xe0, 0xed, 0xa0, 0xf0, 0xf4, 0x90, 0xff))

test('property: base64 as Buffer has it, with blanks and without padding too', () => {
  fc.assert(
    fc.property(bytes, given => {
      const text = Buffer.from(given).toString('base64')
      expect(toBase64(given)).toBe(text)
      expect(fromBase64(text)).toEqual(given)
      expect(fromBase64(` ${text.replaceAll('=', '')}\n`)).toEqual(given)
    }),
  )
  for (const wrong of ['a', 'ab=c', 'a-b_', 'abc==', 'é']) expect(() => fromBase64(wrong)).toThrow('no')
})

test('property: base64 refuses what atob refuses', () => {
  const text = fc.string({ unit: fc.constantFrom(...'AZaz09+/= -é'), maxLength: 12 })
  const made = (make: () => string): string => {
    try {
      return make()
    } catch {
      return 'refused'
    }
  }
  fc.assert(
    fc.property(text, given => {
      const ours = made(() => Buffer.from(fromBase64(given)).toString('latin1'))
      expect(ours).toBe(made(() => atob(given)))
    }),
  )
})

const text = fc.array(fc.integer({ min: 0, max: 0x10ffff })).map(codes => String.fromCodePoint(...codes))
test('property: text to UTF-8 and back as TextEncoder and TextDecoder have it', () => {
  fc.assert(
    fc.property(text, given => {
      expect(Buffer.from(encodeUtf8(given))).toEqual(Buffer.from(given.toWellFormed()))
    }),
  )
  expect([...encodeUtf8('a\ud800b')]).toEqual([...new TextEncoder().encode('a\ud800b')])
  fc.assert(
    fc.property(
      fc.oneof(
        bytes,
        strange.map(list => Uint8Array.from(list)),
      ),
      given => {
        expect(decodeUtf8(given)).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(given))
      },
    ),
  )
  expect(() => decodeUtf8(Uint8Array.of(0xff), true)).toThrow('no UTF-8')
  expect(decodeUtf8(encodeUtf8('ü'.repeat(100_000))).length).toBe(100_000)
})
