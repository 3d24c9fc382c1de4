// What ctl reads and prints as text: spans of time, fingerprints, tables, the PIN in big digits.
import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { plain, table, wantsJson } from './api.ts'
import { pickDevice } from './devices.ts'
import { clock, parseSecs } from './duration.ts'
import { pinBanner } from './pin-banner.ts'

test('spans of time are seconds, or carry a unit; anything else is refused', () => {
  expect(['90', '90s', '15m', '2h', '7d', ' 0 '].map(parseSecs)).toEqual([90, 90, 900, 7200, 604_800, 0])
  fc.assert(
    fc.property(fc.string(), text => {
      fc.pre(!/^\s*\d{1,9}[smhd]?\s*$/.test(text))
      expect(() => parseSecs(text)).toThrow('Write seconds')
    }),
  )
  expect([0, 7.9, 724, 10_800].map(clock)).toEqual(['0:00', '0:07', '12:04', '3:00:00'])
})

test('nothing that comes from elsewhere speaks to the terminal', () => {
  const out = new PassThrough()
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 2, maxLength: 2 }), cells => {
      const lines = table(out, ['A', 'B'], [cells]).split('\n')
      expect(lines).toHaveLength(2)
      expect(plain(lines[1]!)).toBe(lines[1])
      expect(lines[1]).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/)
    }),
  )
})

test('on a terminal the last column is broken to its width, under its head', () => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 34 })
  const text = table(terminal, ['ID', 'WHY'], [['a', 'needs a service that nobody here provides']])
  // Colours aside, as they take no room.
  const lines = text.replaceAll(/\u001b\[\d+m/g, '').split('\n')
  expect(lines).toEqual(['ID  WHY', 'a   needs a service that nobody', '    here provides'])
})

test('each digit of a PIN looks like no other, in five lines of equal dots', () => {
  const drawn = [...'0123456789'].map(digit => pinBanner(digit, '#'))
  expect(new Set(drawn).size).toBe(10)
  for (const digit of drawn) expect(digit.split('\n')).toHaveLength(5)
  expect(pinBanner('17', '#').split('\n')[0]).toBe('      ##     ######')
})

test('a fingerprint or its beginning names one device; any text is answered in words', () => {
  const devices = ['ab12', 'ab34'].map((start, i) => ({
    name: `device ${i}`,
    fingerprint: start.padEnd(64, '0'),
    access_level: 'full',
    expires_unix: null,
  }))
  const rosters = { native: devices, compat: [] }
  expect(pickDevice(rosters, 'AB:12').name).toBe('device 0')
  expect(pickDevice(rosters, devices[1]!.fingerprint).name).toBe('device 1')
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-f:]{0,70}$/)), text => {
      try {
        expect(pickDevice(rosters, text).fingerprint).toContain(text.trim().toLowerCase().replaceAll(':', ''))
      } catch (error) {
        expect((error as Error).message).toMatch(/no fingerprint|paired device/)
      }
    }),
  )
})

test('--json is an option only before --', () => {
  expect([['a', '--json'], ['--json', 'a'], ['--', '--json'], []].map(wantsJson)).toEqual([
    true,
    true,
    false,
    false,
  ])
})
