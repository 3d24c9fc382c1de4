// The list of devices that knock under every order of inputs: who gets a place, who loses one, and who never does.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  enter,
  hold,
  type KnockFacts,
  listedMs,
  type PendingState,
  parkedMs,
  remove,
  sweep,
  unpark,
} from './pending.ts'

const from = (name: string, address = '10.0.0.1', source: 'lan' | 'wan' = 'lan'): KnockFacts => ({
  fingerprint: name,
  name,
  address,
  source,
})
/** Devices in the order of their knocks, one millisecond apart; each one's id is its place. */
const list = (...knocks: readonly KnockFacts[]): PendingState =>
  knocks.reduce<PendingState>((state, knock, i) => {
    const entered = enter(state, i, knock, i)
    if ('refused' in entered) throw new Error(`no place for ${knock.name}`)
    return entered.state
  }, [])
const names = (state: PendingState): string[] => state.map(({ name }) => name)
const crowd = (count: number, address: (i: number) => string): KnockFacts[] =>
  Array.from({ length: count }, (_, i) => from(`d${i}`, address(i)))

describe('places', () => {
  test('four for one address; the least recent that does not wait makes room', () => {
    const four = list(...crowd(4, () => '10.0.0.1'))
    expect(enter(four, 9, from('e'), 9)).toEqual({ refused: 'full' })
    expect(enter(four, 9, from('e', '10.0.0.2'), 9)).not.toHaveProperty('refused')
    const entered = enter(unpark(unpark(four, 2), 1), 9, from('e'), 9)
    expect('state' in entered && names(entered.state)).toEqual(['d0', 'd2', 'd3', 'e'])
  })

  test('of one IPv6 network count as one address, mapped IPv4 as IPv4, unknown ones as one', () => {
    const refused = (addresses: (string | undefined)[], next: string | undefined) =>
      enter(
        list(...addresses.map((address, i) => ({ ...from(`d${i}`), address }))),
        9,
        { ...from('e'), address: next },
        9,
      )
    const network = ['fd00::1', 'fd00:0:0:0:1::', 'fd00::ffff', '::ffff:10.0.0.1', 'fd00::2']
    expect(refused(network, 'fd00:0000::9')).toEqual({ refused: 'full' })
    expect(refused(network, 'fd00:0:0:1::1')).not.toHaveProperty('refused')
    expect(refused([...Array(3).fill('::ffff:10.0.0.1'), '10.0.0.1'], '10.0.0.1')).toEqual({
      refused: 'full',
    })
    expect(refused([undefined, '', undefined, ''], undefined)).toEqual({ refused: 'full' })
  })

  test('thirty-two in all', () => {
    const full = list(...crowd(32, i => `10.0.${i}.1`))
    expect(enter(full, 99, from('e', '10.1.0.1'), 99)).toEqual({ refused: 'full' })
    const entered = enter(unpark(unpark(full, 31), 30), 99, from('e', '10.1.0.1'), 99)
    expect('state' in entered && names(entered.state)).not.toContain('d30')
    expect('state' in entered && entered.state).toHaveLength(32)
  })

  test('of a device that is being stored are nobody else’s, however long that takes', () => {
    const held = hold(list(from('a'), ...crowd(3, () => '10.0.0.1')), 0, true)
    const later = sweep(held, listedMs * 3)
    expect(names(later.state)).toEqual(['a'])
    expect(later.unanswered).toEqual([0, 1, 2, 3])
    expect(names(sweep(hold(later.state, 0, false), listedMs * 3).state)).toEqual([])
  })
})

test('a device that knocks again keeps its id, and starts anew otherwise', () => {
  const state = list(from('a'), from('b', '10.0.0.2'))
  const again = enter(state, 5000, { ...from('a', '8.8.8.8', 'wan'), name: 'A' }, 9)
  expect(again).toMatchObject({ isNew: false, device: { id: 0, name: 'A', source: 'wan', knockedMs: 5000 } })
  // From elsewhere it cannot be approved, so that it does not wait.
  expect('device' in again && again.device.parkedUntilMs).toBeNull()
  expect('state' in again && names(again.state)).toEqual(['b', 'A'])
})

test('a device that moves to a crowded address keeps the place it had', () => {
  const state = list(...crowd(4, () => '10.0.0.1'), from('mover', '10.0.0.2'))
  expect(enter(state, 9, from('mover', '10.0.0.1'), 9)).toEqual({ refused: 'full' })
})

test('over any order of inputs: places are bounded and unique, and nobody who waits loses his', () => {
  const device = fc.constantFrom(...Array.from({ length: 45 }, (_, i) => `d${i}`))
  const address = fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom('10.0.0.1', 'fd00::1', 'fd00::2', undefined) },
    { weight: 2, arbitrary: fc.nat(14).map(i => `10.1.${i}.1`) },
  )
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('knock' as const),
        fingerprint: device,
        address,
        source: fc.constantFrom('lan' as const, 'lan' as const, 'lan' as const, 'wan' as const),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constantFrom('unpark' as const, 'hold' as const, 'drop' as const, 'remove' as const),
        at: fc.nat(40),
      }),
    },
  )
  const timed = fc.record({ after: fc.oneof(fc.nat(2000), fc.nat(200_000)), step })
  fc.assert(
    fc.property(fc.array(timed, { maxLength: 120 }), steps => {
      let state: PendingState = []
      let now = 0
      let nextId = 0
      for (const { after, step: s } of steps) {
        now += after
        const before = state
        const waits = new Set(
          before
            .filter(d => d.isHeld || (d.parkedUntilMs !== null && now < d.parkedUntilMs))
            .map(d => d.fingerprint),
        )
        const swept = sweep(state, now)
        expect(swept.unanswered).toEqual(
          before.filter(d => d.parkedUntilMs !== null && now >= d.parkedUntilMs).map(d => d.id),
        )
        state = swept.state
        expect(before.filter(d => now - d.knockedMs < listedMs)).toHaveLength(
          state.filter(d => now - d.knockedMs < listedMs).length,
        )
        const id = s.do === 'knock' ? -1 : (state[s.at % Math.max(1, state.length)]?.id ?? -1)
        if (s.do === 'knock') {
          const result = enter(state, now, { ...s, name: s.fingerprint }, nextId)
          if ('refused' in result) {
            // Refused only where everyone whose place it could have had waits.
            const others = state.filter(d => d.fingerprint !== s.fingerprint)
            const rivals = others.filter(d => d.address === s.address)
            const isBusy = (d: (typeof others)[number]) => d.parkedUntilMs !== null || d.isHeld
            const near = s.address?.startsWith('fd00')
              ? others.filter(d => d.address?.startsWith('fd00'))
              : rivals
            expect(
              (near.length >= 4 && near.every(isBusy)) || (others.length >= 32 && others.every(isBusy)),
            ).toBe(true)
          } else {
            expect(result.isNew).toBe(!state.some(d => d.fingerprint === s.fingerprint))
            if (result.isNew) nextId++
            expect(result.device.parkedUntilMs).toBe(s.source === 'lan' ? now + parkedMs : null)
            state = result.state
          }
          for (const name of waits) expect(state.map(d => d.fingerprint)).toContain(name)
        } else if (s.do === 'unpark') state = unpark(state, id)
        else if (s.do === 'remove') state = remove(state, id)
        else state = hold(state, id, s.do === 'hold')

        expect(state.length).toBeLessThanOrEqual(32)
        expect(new Set(state.map(d => d.fingerprint)).size).toBe(state.length)
        expect(new Set(state.map(d => d.id)).size).toBe(state.length)
        const perAddress = Map.groupBy(state, d => (d.address?.startsWith('fd00') ? 'fd00' : d.address))
        for (const group of perAddress.values()) expect(group.length).toBeLessThanOrEqual(4)
      }
    }),
    { numRuns: 200 },
  )
})
