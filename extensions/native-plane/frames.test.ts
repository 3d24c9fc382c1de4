// The control connection's bytes: framing and messages against every kind of input, keys against the vectors.
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clampBitrate, defaultBitrate } from './bitrate.ts'
import { createFrameReader, frame } from './frames.ts'
import { keyContext, mediaKeys } from './keys.ts'
import { addressKey } from './listener.ts'
import { checkMode, decode32, ProtocolError, readMessage } from './messages.ts'

const cut = (bytes: Buffer, sizes: readonly number[]): Buffer[] => {
  const pieces: Buffer[] = []
  let at = 0
  for (let i = 0; at < bytes.length; i++) {
    const size = Math.max(1, sizes[i % sizes.length] ?? 1)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

describe('framing', () => {
  test('messages come out as they went in, however the stream is cut', () => {
    const bodies = fc.array(fc.record({ type: fc.string(), data: fc.string({ maxLength: 300 }) }), {
      maxLength: 8,
    })
    fc.assert(
      fc.property(
        bodies,
        fc.array(fc.integer({ min: 1, max: 97 }), { minLength: 1, maxLength: 9 }),
        (all, sizes) => {
          const reader = createFrameReader()
          const seen = cut(Buffer.concat(all.map(frame)), sizes).flatMap(piece => reader.push(piece))
          expect(seen.map(body => JSON.parse(body.toString()))).toEqual(all)
        },
      ),
    )
  })

  test('a length out of range is refused as soon as it is there', () => {
    for (const length of [0, 1, 65_537, 0x47455420, 0xffffffff]) {
      const head = Buffer.alloc(4)
      head.writeUInt32BE(length)
      expect(() => createFrameReader().push(head), String(length)).toThrow(ProtocolError)
    }
    const largest = Buffer.alloc(4 + 65_536)
    largest.writeUInt32BE(65_536)
    expect(createFrameReader().push(largest)).toHaveLength(1)
  })

  test('any bytes are messages or a protocol error', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), chunks => {
        const reader = createFrameReader()
        try {
          for (const chunk of chunks) reader.push(Buffer.from(chunk))
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      }),
    )
  })
})

describe('messages', () => {
  const text = (value: unknown) => Buffer.from(JSON.stringify(value))
  const start = { type: 'start', mode: { width: 1280, height: 720, hz: 60 }, video: ['h264'], grants: 127 }

  test('are taken with unknown fields and null audio; unknown types are skipped', () => {
    expect(readMessage(text({ ...start, audio: null, more: 1 }))).toEqual({ ...start, audio: null })
    expect(readMessage(text({ type: 'from-the-future', x: [] }))).toBeUndefined()
  })

  test.each([
    ['no JSON', Buffer.from('{"type":')],
    ['no UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['no object', text('hello')],
    ['an array', text([])],
    ['null', text(null)],
    ['no type', text({})],
    ['a type that is no text', text({ type: 3 })],
    ['a field of the wrong type', text({ ...start, grants: '127' })],
    ['a field missing', text({ type: 'hello' })],
  ])('%s is a protocol error', (_what, bytes) => {
    expect(() => readMessage(bytes)).toThrow(ProtocolError)
  })

  test('any JSON under a known type is read or refused by name, never another error', () => {
    const types = [
      'hello',
      'start',
      'pair-share',
      'pair-confirm',
      'resize',
      'bitrate',
      'close',
      'ping',
      'stats',
    ]
    const fields = [
      'protocol',
      'name',
      'intent',
      'mode',
      'video',
      'grants',
      'share',
      'tag',
      'kbps',
      'code',
      'id',
      '__proto__',
    ]
    const message = fc
      .tuple(fc.constantFrom(...types), fc.dictionary(fc.constantFrom(...fields), fc.jsonValue()))
      .map(([type, rest]) => text({ ...rest, type }))
    fc.assert(
      fc.property(fc.oneof(message, fc.uint8Array().map(Buffer.from), fc.json().map(Buffer.from)), bytes => {
        try {
          readMessage(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('32 bytes of base64, or nothing', () => {
    const bytes = Buffer.alloc(32, 0xfb)
    expect(decode32(bytes.toString('base64'))).toEqual(bytes)
    for (const wrong of [
      '',
      'x',
      bytes.toString('hex'),
      `${bytes.toString('base64')}=`,
      `${'A'.repeat(43)}-`,
    ]) {
      expect(decode32(wrong), wrong).toHaveLength(0)
    }
    fc.assert(fc.property(fc.string(), raw => void expect([0, 32]).toContain(decode32(raw).length)))
  })

  test('modes within the bounds of section 2.3', () => {
    expect(checkMode({ width: 64, height: 64, hz: 1 })).toBeUndefined()
    expect(checkMode({ width: 7680, height: 4320, hz: 240 })).toBeUndefined()
    for (const wrong of [
      { width: 62 },
      { width: 641 },
      { width: 7682 },
      { height: 4322 },
      { hz: 0 },
      { hz: 241 },
      { hz: 59.94 },
      { width: 1e300 },
    ]) {
      expect(checkMode({ width: 640, height: 480, hz: 60, ...wrong }), JSON.stringify(wrong)).toMatch(
        /must be/,
      )
    }
  })
})

test('bitrates stay within bounds', () => {
  expect([0, 1e12, 8000.4, Number.NaN].map(clampBitrate)).toEqual([500, 300_000, 8000, 500])
  expect(defaultBitrate({ width: 1280, height: 720, hz: 60 })).toBe(5530)
})

test('addresses: one IPv6 network is one, mapped IPv4 is IPv4', () => {
  expect(addressKey('2001:db8:1:2:3:4:5:6')).toBe(addressKey('2001:db8:1:2::9'))
  expect(addressKey('2001:db8:1:2::1')).not.toBe(addressKey('2001:db8:1:3::1'))
  expect(addressKey('::ffff:192.0.2.1')).toBe(addressKey('192.0.2.1'))
  expect(addressKey('::1')).toBe('0000:0000:0000:0000')
  expect(addressKey(undefined)).toBe('')
})

describe('media keys', () => {
  const vectors = JSON.parse(readFileSync(new URL('./vectors/keys.json', import.meta.url), 'utf8'))

  test('contexts are those of the vectors', () => {
    expect(vectors.cases.length).toBeGreaterThan(5)
    for (const { session, epoch, direction, stream, context } of vectors.cases) {
      expect(keyContext(session, epoch, direction, stream).toString('hex')).toBe(context)
    }
  })

  test('each pair in use has a key of its own, under the label of the vectors', () => {
    const asked: string[] = []
    const exportKeyingMaterial = (length: number, label: string, context: Buffer) => {
      expect([length, label]).toEqual([vectors.length, vectors.label])
      asked.push(context.toString('hex'))
      return Buffer.from(context.toString('hex'))
    }
    const keys = mediaKeys({ exportKeyingMaterial }, '8f1c00a1b2c3d4e5', 2)
    const of = (direction: number, stream: number) =>
      Buffer.from(keyContext('8f1c00a1b2c3d4e5', 2, direction, stream).toString('hex'))
    expect(keys).toEqual({
      videoOut: of(1, 1),
      audioOut: of(1, 2),
      pathOut: of(1, 4),
      inputIn: of(2, 3),
      pathIn: of(2, 4),
    })
    expect(new Set(asked).size).toBe(5)
  })
})
