// The PIN window under every order of inputs: what it may never do, whatever comes.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { arm, attempt, closed, disarm, finish, openAt, paceMs, ttlSecs, type WindowState } from './window.ts'

const anyDevice = { pin: '0042', fingerprint: null, access: { grants: null, expiresInSecs: null } }
const started = (result: ReturnType<typeof attempt>) => {
  if ('refused' in result) throw new Error(result.refused)
  return result
}

test('the length of a window is the wish within 15 to 600 seconds', () => {
  expect([undefined, null, 0, -5, 14, 15, 300, 601, 1e9].map(ttlSecs)).toEqual([
    120, 120, 15, 15, 15, 15, 300, 600, 600,
  ])
})

describe('one attempt', () => {
  const open = arm(closed, 1000, anyDevice, 120)

  test('spends the window, also with a wrong PIN', () => {
    const { state, exchange, pin } = started(attempt(open, 2000, 'a', 'lan'))
    expect(pin).toBe('0042')
    expect(openAt(state, 2000)).toBeNull()
    const wrong = finish(state, 3000, exchange, false)
    expect(wrong).toMatchObject({ refused: 'wrong-pin' })
    expect(attempt(wrong.state, 60_000, 'a', 'lan')).toEqual({ refused: 'no-window' })
  })

  test('pairs when it proves the PIN in time, once', () => {
    const { state, exchange } = started(attempt(open, 2000, 'a', 'lan'))
    const done = finish(state, 3000, exchange, true)
    expect(done).toMatchObject({ access: anyDevice.access })
    expect(finish(done.state, 3001, exchange, true)).toMatchObject({ refused: 'no-window' })
  })

  test.each([
    ['the window has lapsed', (s: WindowState) => s, 121_000],
    ['it was armed anew', (s: WindowState) => arm(s, 2500, anyDevice, 120), 3000],
    ['it was disarmed', disarm, 3000],
  ])('pairs nothing when meanwhile %s', (_why, meanwhile, at) => {
    const { state, exchange } = started(attempt(open, 2000, 'a', 'lan'))
    expect(finish(meanwhile(state), at, exchange, true)).toMatchObject({ refused: 'no-window' })
  })

  test('is not spent by another device, nor from outside, nor too soon', () => {
    const bound = arm(closed, 1000, { ...anyDevice, fingerprint: 'a' }, 120)
    expect(attempt(bound, 2000, 'b', 'lan')).toEqual({ refused: 'other-device' })
    expect(attempt(bound, 2000, 'a', 'wan')).not.toHaveProperty('refused')
    expect(attempt(open, 2000, 'a', 'wan')).toEqual({ refused: 'outside-lan' })
    const { state } = started(attempt(open, 2000, 'a', 'lan'))
    const again = arm(state, 2100, anyDevice, 120)
    expect(attempt(again, 2500, 'b', 'lan')).toEqual({ refused: 'pace', retryAfterMs: paceMs - 500 })
    expect(openAt(again, 2500)?.pin).toBe('0042')
    expect(attempt(again, 2000 + paceMs, 'b', 'lan')).not.toHaveProperty('refused')
  })
})

test('over any order of inputs: one exchange a window, 2 s apart, and nothing pairs without proof in time', () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('arm' as const),
      bound: fc.constantFrom(null, 'a', 'b'),
      ttl: fc.integer({ min: 0, max: 700 }),
    }),
    fc.record({ do: fc.constant('disarm' as const) }),
    fc.record({
      do: fc.constant('attempt' as const),
      by: fc.constantFrom('a', 'b', 'c'),
      from: fc.constantFrom('lan' as const, 'wan' as const),
    }),
    fc.record({ do: fc.constant('finish' as const), which: fc.nat(6), proven: fc.boolean() }),
  )
  const timed = fc.record({ after: fc.integer({ min: 0, max: 40_000 }), step })
  fc.assert(
    fc.property(fc.array(timed, { maxLength: 60 }), steps => {
      let state = closed
      let now = 0
      let armed: { bound: string | null; until: number } | null = null
      let running: { id: number; until: number } | null = null
      let lastAttempt = Number.NEGATIVE_INFINITY
      for (const { after, step: s } of steps) {
        now += after
        if (s.do === 'arm') {
          state = arm(state, now, { ...anyDevice, fingerprint: s.bound }, s.ttl)
          armed = { bound: s.bound, until: now + ttlSecs(s.ttl) * 1000 }
          running = null
        } else if (s.do === 'disarm') {
          state = disarm(state)
          armed = null
          running = null
        } else if (s.do === 'attempt') {
          const may =
            armed !== null &&
            now < armed.until &&
            (armed.bound === null ? s.from === 'lan' : armed.bound === s.by) &&
            now - lastAttempt >= paceMs
          const result = attempt(state, now, s.by, s.from)
          expect('refused' in result).toBe(!may)
          if ('refused' in result) continue
          state = result.state
          running = { id: result.exchange, until: armed!.until }
          armed = null
          lastAttempt = now
        } else {
          const may = s.proven && running?.id === s.which && now < running.until
          const result = finish(state, now, s.which, s.proven)
          expect('access' in result).toBe(may)
          state = result.state
          if (running?.id === s.which) running = null
        }
      }
    }),
  )
})
