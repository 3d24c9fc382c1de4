// Pure parts: the formats that this extension writes and reads, and what it derives from a mode.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { desktopFiles, terminalSize } from './desktop.ts'
import { encodeRequest, takePacket, takeSetup } from './packet.ts'
import { modelineOf, parseResources } from './randr.ts'
import { restartDelayMs } from './restart.ts'
import { sceneOf } from './scene.ts'
import { parseFormats } from './wallpaper.ts'
import { encodeXauthority } from './xauthority.ts'

const modes = fc.record({
  width: fc.integer({ min: 32, max: 3840 }).map(half => half * 2),
  height: fc.integer({ min: 32, max: 2160 }).map(half => half * 2),
  hz: fc.integer({ min: 1, max: 240 }),
})

test('an .Xauthority entry is what xauth writes for any address and any display', () => {
  const cookie = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')
  const name = Buffer.from('MIT-MAGIC-COOKIE-1').toString('hex')
  expect(encodeXauthority(cookie).toString('hex')).toBe(
    `ffff000000000012${name}0010${cookie.toString('hex')}`,
  )
  expect(() => encodeXauthority(cookie.subarray(1))).toThrow('16 bytes, not 15')
})

test('a modeline keeps the order that X demands and gives exactly the rate asked for', () => {
  fc.assert(
    fc.property(modes, mode => {
      const line = modelineOf(mode)
      expect(mode.width).toBeLessThan(line.hSyncStart)
      expect(line.hSyncStart).toBeLessThan(line.hSyncEnd)
      expect(line.hSyncEnd).toBeLessThan(line.hTotal)
      expect(mode.height).toBeLessThan(line.vSyncStart)
      expect(line.vSyncEnd).toBeLessThan(line.vTotal)
      expect(line.dotClockHz).toBeLessThanOrEqual(0xffffffff)
      const hz = line.dotClockHz / (line.hTotal * line.vTotal)
      if (line.dotClockHz < 0xffffffff) expect(hz).toBe(mode.hz)
      else expect(hz).toBeLessThanOrEqual(mode.hz)
    }),
  )
})

test('a terminal fits its screen unless the screen is tiny', () => {
  fc.assert(
    fc.property(modes, mode => {
      const { columns, rows, points } = terminalSize(mode)
      const em = (points * 96) / 72
      if (columns > 20) expect(columns * em * 0.602).toBeLessThanOrEqual(mode.width)
      if (rows > 4) expect(rows * em * 1.164).toBeLessThanOrEqual(mode.height)
    }),
  )
})

test('whatever the terminal command is, the files stay well formed', () => {
  const files = desktopFiles('/run/x', { width: 1280, height: 720, hz: 60 }, `sh -c 'a && b < "c"'`)
  expect(files['openbox/menu.xml']).toContain(
    '<command>sh -c &#39;a &#38;&#38; b &#60; &#34;c&#34;&#39;</command>',
  )
  expect(files['openbox/rc.xml']).toContain('/run/x/openbox/menu.xml')
  const without = desktopFiles('/run/x', { width: 1280, height: 720, hz: 60 })
  expect(without['openbox/menu.xml']).not.toContain('Execute')
})

test('the wallpaper covers any screen below its horizon', () => {
  fc.assert(
    fc.property(modes, ({ width, height }) => {
      const { shapes, horizon } = sceneOf(width, height)
      const first = shapes[0]!
      expect(first.below).toBeLessThanOrEqual(horizon)
      const xs = first.triangles.flat().map(([x]) => x)
      expect(Math.min(...xs)).toBeLessThanOrEqual(0)
      expect(Math.max(...xs)).toBeGreaterThanOrEqual(width)
      const points = shapes.flatMap(({ triangles }) => triangles).flat(2)
      expect(points.every(Number.isFinite)).toBe(true)
    }),
    { numRuns: 20 },
  )
})

test('a program that keeps ending is started ever more rarely, up to a bound', () => {
  const delays = Array.from({ length: 20 }, (_, i) => restartDelayMs(i))
  expect(delays).toEqual([...delays].sort((a, b) => a - b))
  expect(delays[0]).toBe(250)
  expect(delays.at(-1)).toBe(30_000)
})

test('requests carry their length in words and refuse what would not fit', () => {
  expect([...encodeRequest(43, 0, new Uint8Array())]).toEqual([43, 0, 1, 0])
  expect([...encodeRequest(98, 7, Buffer.from('abcde'))]).toEqual([
    98, 7, 3, 0, 97, 98, 99, 100, 101, 0, 0, 0,
  ])
  expect(() => encodeRequest(1, 0, new Uint8Array(262_144))).toThrow('too long')
})

test('a packet is read whole or not at all, however the bytes arrive', () => {
  const reply = Buffer.alloc(40)
  reply[0] = 1
  reply.writeUInt16LE(7, 2)
  reply.writeUInt32LE(2, 4)
  const error = Buffer.alloc(32)
  error[1] = 8
  error.writeUInt16LE(9, 2)
  error.writeUInt16LE(18, 8)
  error[10] = 140
  const stream = Buffer.concat([reply, error])
  for (let cut = 0; cut < 40; cut++) expect(takePacket(stream.subarray(0, cut))).toBeUndefined()
  const first = takePacket(stream)!
  expect(first.packet).toMatchObject({ type: 'reply', sequence: 7 })
  expect(takePacket(first.rest)!.packet).toEqual({
    type: 'error',
    sequence: 9,
    code: 8,
    major: 140,
    minor: 18,
  })
})

test('the set-up answer of a server gives screen and ids, and its refusal its reason', () => {
  const answer = Buffer.alloc(8 + 32 + 8 + 8 + 40)
  answer[0] = 1
  answer.writeUInt16LE((answer.length - 8) / 4, 6)
  answer.writeUInt32LE(0x400000, 12)
  answer.writeUInt32LE(0x1fffff, 16)
  answer.writeUInt16LE(5, 24)
  answer[28] = 1
  answer[29] = 1
  answer.writeUInt32LE(77, 56)
  answer.writeUInt16LE(1280, 76)
  answer.writeUInt16LE(720, 78)
  answer[94] = 24
  const setup = {
    resourceBase: 0x400000,
    resourceMask: 0x1fffff,
    root: 77,
    rootDepth: 24,
    width: 1280,
    height: 720,
  }
  expect(takeSetup(answer)!.setup).toEqual(setup)
  expect(takeSetup(answer.subarray(0, 95))).toBeUndefined()
  const refusal = Buffer.concat([Buffer.from([0, 3, 11, 0, 0, 0, 1, 0]), Buffer.from('no!\0')])
  expect(() => takeSetup(refusal)).toThrow('the X server refuses the connection: no!')
})

test('no bytes make a parser do anything but answer, wait or refuse', () => {
  const parsers = [takeSetup, takePacket, parseResources, parseFormats]
  const shaped = fc.tuple(fc.constantFrom(0, 1, 2, 35, 129), fc.uint8Array({ maxLength: 400 }))
  fc.assert(
    fc.property(shaped, ([first, tail]) => {
      const bytes = Buffer.from([first, ...tail])
      for (const parse of parsers) {
        try {
          parse(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(Error)
        }
      }
    }),
    { numRuns: 2000 },
  )
})
