// What the user writes: targets, modes, input scripts; and what the numbers are made of.

import fc from 'fast-check'
import { StreamError } from 'svc-host/stream'
import { describe, expect, it } from 'vitest'
import { parseInputScript, typed } from './input-script.ts'
import { keyUsage } from './key-names.ts'
import { percentile } from './report.ts'
import { parseMode, parseTarget } from './target.ts'

const refused = expect.objectContaining({ code: 'bad-argument' })
const attempt = (run: () => unknown) => {
  try {
    return run()
  } catch (error) {
    return error
  }
}

describe('targets and modes', () => {
  it.each([
    ['den', 'den', 9777],
    ['10.0.0.2:1234', '10.0.0.2', 1234],
    ['[fe80::1%eth0]:9', 'fe80::1%eth0', 9],
    ['::1', '::1', 9777],
    ['[::1]', '::1', 9777],
  ])('%s', (text, host, port) => expect(parseTarget(text)).toEqual({ host, port }))
  it.each(['', 'a:b', 'a:0', 'a:70000', '[::1', 'a b'])('refuses the host "%s"', text =>
    expect(attempt(() => parseTarget(text))).toEqual(refused),
  )
  it('reads a mode, and refuses what the protocol does not allow', () => {
    expect(parseMode('1920x1080@144')).toEqual({ width: 1920, height: 1080, hz: 144 })
    for (const text of [
      '1920x1080',
      '1921x1080@60',
      '62x64@60',
      '1280x720@0',
      '1280x720@241',
      '7682x4320@60',
    ]) {
      expect(
        attempt(() => parseMode(text)),
        text,
      ).toEqual(refused)
    }
  })
})

describe('input scripts', () => {
  it('are read and sorted by time', () => {
    const script = '# hello\r\n20 button left\n\n10 text a\\tb\\n\n20 to 1 0\n30 key-down 0xe0\n'
    expect(parseInputScript(script)).toEqual([
      {
        atMs: 10,
        events: [
          { type: 'text', text: 'a' },
          { type: 'key', usage: 43, down: true },
          { type: 'key', usage: 43, down: false },
          { type: 'text', text: 'b' },
          { type: 'key', usage: 40, down: true },
          { type: 'key', usage: 40, down: false },
        ],
      },
      {
        atMs: 20,
        events: [
          { type: 'button', button: 1, down: true },
          { type: 'button', button: 1, down: false },
        ],
      },
      { atMs: 20, events: [{ type: 'pointer-to', x: 65535, y: 0 }] },
      { atMs: 30, events: [{ type: 'key', usage: 0xe0, down: true }] },
    ])
  })
  it.each(['x text a', '10 dance', '10 key KeyÄ', '10 to 2 0', '10 button', '10 move 1', '10 constructor'])(
    'name the line of "%s"',
    line =>
      expect(attempt(() => parseInputScript(`0 release-all\n${line}`))).toEqual(
        expect.objectContaining({ code: 'bad-argument', message: expect.stringContaining('line 2') }),
      ),
  )
  it('of any text are read or refused', () => {
    fc.assert(
      fc.property(fc.string(), text => {
        const result = attempt(() => parseInputScript(text))
        expect(Array.isArray(result) || result instanceof StreamError).toBe(true)
      }),
      { seed: 6 },
    )
  })
  it('type long texts in parts that are no longer than an event', () => {
    const events = typed('é'.repeat(300))
    expect(events.map(event => (event.type === 'text' ? event.text : '')).join('')).toBe('é'.repeat(300))
    expect(events).toHaveLength(3)
  })
})

describe('keys and numbers', () => {
  it('have the usages of the HID tables', () => {
    const expected = {
      KeyA: 4,
      KeyZ: 29,
      Digit1: 30,
      Digit0: 39,
      Enter: 40,
      Backslash: 49,
      Semicolon: 51,
      F1: 58,
      F12: 69,
      PageDown: 78,
      ArrowUp: 82,
      MetaRight: 231,
    }
    expect(Object.fromEntries(Object.keys(expected).map(name => [name, keyUsage(name)]))).toEqual(expected)
  })
  it('percentiles are values that were measured', () => {
    expect(percentile([], 0.5)).toBeNull()
    expect(percentile([7], 0.99)).toBe(7)
    const hundred = Array.from({ length: 100 }, (_, i) => i + 1)
    expect([percentile(hundred, 0.5), percentile(hundred, 0.99), percentile(hundred, 1)]).toEqual([
      50, 99, 100,
    ])
  })
})
