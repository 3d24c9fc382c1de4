// The roster's rules of access, names and sources.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { deviceName, sanitizeName } from './device-name.ts'
import { accessLevel, effectiveGrants, isGrantMask } from './grants.ts'
import { withGuests } from './guests.ts'
import { createRoster } from './roster.ts'
import { RosterFile } from './schema.ts'
import { sourceOf } from './source.ts'

const a = 'a'.repeat(64)
const b = 'b'.repeat(64)
const noChoice = { grants: null, expiresInSecs: null }

const setUp = (file: object = {}) => {
  const news: string[] = []
  const clock = { now: 1000 }
  let fails = false
  const document = {
    value: RosterFile.parse(file),
    exists: true,
    write: async (next: RosterFile) => {
      if (fails) throw new Error('disk full')
      document.value = next
    },
  }
  const tell = (what: string) => (client: { name: string }) => void news.push(`${what} ${client.name}`)
  const roster = createRoster(
    document,
    {
      completed: tell('completed'),
      granted: tell('granted'),
      changed: tell('changed'),
      expired: tell('expired'),
    },
    () => clock.now,
  )
  return { roster, news, clock, breakDisk: () => (fails = true) }
}

describe('pairing', () => {
  test('without a choice is full and permanent at first, and keeps what is stored later', async () => {
    const { roster, news } = setUp()
    expect(await roster.pair(a, 'Sofa', noChoice)).toEqual({
      name: 'Sofa',
      fingerprint: a,
      grants: 0x7f,
      expires_unix: null,
      granted_unix: 1000,
    })
    await roster.edit(a, { name: 'Couch', grants: 1, expiresInSecs: 60 })
    expect(await roster.pair(a, 'Sofa', noChoice)).toMatchObject({
      name: 'Couch',
      grants: 1,
      expires_unix: 1060,
    })
    expect(news).toEqual(['completed Sofa', 'changed Couch', 'completed Couch'])
  })

  test('with a choice: grants alone are permanent, a length alone is full', async () => {
    const { roster, news } = setUp()
    expect(await roster.pair(a, 'A', { grants: 2, expiresInSecs: null })).toMatchObject({
      grants: 2,
      expires_unix: null,
    })
    expect(await roster.pair(b, 'B', { grants: null, expiresInSecs: 9 })).toMatchObject({
      grants: 0x7f,
      expires_unix: 1009,
    })
    expect(news).toEqual(['completed A', 'granted A', 'completed B', 'granted B'])
  })

  test('changes nothing when the file cannot be written', async () => {
    const { roster, news, breakDisk } = setUp()
    breakDisk()
    await expect(roster.pair(a, 'A', noChoice)).rejects.toThrow('disk full')
    expect(roster.list()).toEqual([])
    expect(news).toEqual([])
  })

  test('at once from many sides loses nobody', async () => {
    const { roster } = setUp()
    const all = Array.from({ length: 20 }, (_, i) => i.toString(16).padStart(64, '0'))
    await Promise.all(all.map(fingerprint => roster.pair(fingerprint, 'x', noChoice)))
    expect(roster.list().map(c => c.fingerprint)).toEqual(all)
  })
})

describe('an access that ends', () => {
  test('ends a watched device once a second looks, and the device stays listed', async () => {
    const { roster, news, clock } = setUp()
    await roster.pair(a, 'A', { grants: null, expiresInSecs: 5 })
    const seen: unknown[] = []
    const stop = roster.watch(a, now => seen.push(now))
    clock.now = 1004
    roster.expire()
    expect(seen).toEqual([])
    clock.now = 1005
    expect(roster.find(a)).toBeUndefined()
    expect([roster.isExpired(a), roster.isExpired(b)]).toEqual([true, false])
    roster.expire()
    expect(seen).toEqual(['expired'])
    stop()
    roster.expire()
    expect(seen).toEqual(['expired'])
    expect(roster.list()).toHaveLength(1)
    expect(news.at(-1)).toBe('expired A')
  })

  test('of a device that does not stream says nothing', async () => {
    const { roster, news, clock } = setUp()
    await roster.pair(a, 'A', { grants: null, expiresInSecs: 5 })
    clock.now = 2000
    roster.expire()
    expect(news).not.toContain('expired A')
  })

  test('0 seconds end it now, null makes it permanent', async () => {
    const { roster } = setUp()
    await roster.pair(a, 'A', noChoice)
    const seen: unknown[] = []
    roster.watch(a, now => seen.push(now))
    await roster.edit(a, { expiresInSecs: 0 })
    expect(seen).toEqual(['expired'])
    await roster.edit(a, { expiresInSecs: null })
    expect(roster.find(a)).toMatchObject({ level: 'full' })
  })
})

test('an open host takes strangers as guests, and nobody whose access is over', async () => {
  const { roster, clock } = setUp()
  const open = withGuests(roster)
  expect(open.find(a.toUpperCase())).toEqual({
    name: 'device aaaaaaaa',
    fingerprint: a,
    grants: 0x3f,
    level: 'full',
    isGuest: true,
  })
  await roster.pair(a, 'Sofa', { grants: 1, expiresInSecs: 5 })
  expect(open.find(a)).toMatchObject({ name: 'Sofa', grants: 1 })
  clock.now = 2000
  expect(open.find(a)).toBeUndefined()
  expect([open.isOpen, roster.isOpen, roster.find(b)]).toEqual([true, false, undefined])
})

test('a new name is told to who streams, and is no change of access', async () => {
  const { roster, news } = setUp()
  await roster.pair(a, 'A', noChoice)
  const seen: unknown[] = []
  roster.watch(a, now => seen.push(now))
  expect(await roster.edit(a, { name: 'Sofa\u202e' })).toMatchObject({ name: 'Sofa', granted_unix: 1000 })
  expect(seen).toMatchObject([{ name: 'Sofa', level: 'full' }])
  expect(news).toEqual(['completed A'])
})

test('pairing under a given name: it goes before the stored one, and that before the device’s own', async () => {
  const { roster } = setUp()
  expect(await roster.pair(a, 'own', noChoice, ' \u200b ')).toMatchObject({ name: 'own' })
  expect(await roster.pair(a, 'other', noChoice)).toMatchObject({ name: 'own' })
  expect(await roster.pair(a, 'other', noChoice, 'Den\u2066')).toMatchObject({ name: 'Den' })
})

test('unpairing tells who streams, in one write for all', async () => {
  const { roster } = setUp()
  await roster.pair(a, 'A', noChoice)
  await roster.pair(b, 'B', noChoice)
  const seen: unknown[] = []
  roster.watch(a, now => seen.push(now))
  expect(await roster.unpair('c'.repeat(64))).toBe(0)
  expect(await roster.unpair('all')).toBe(2)
  expect(seen).toEqual(['unpaired'])
  expect(await roster.unpair('all')).toBe(0)
})

test('a broken row of the file costs that row only', () => {
  const row = { name: 'A', fingerprint: a.toUpperCase() }
  const { clients } = RosterFile.parse({
    clients: [row, { name: 1 }, 'x', null, { name: 'B', fingerprint: 'zz' }],
  })
  expect(clients).toEqual([
    { name: 'A', fingerprint: a, grants: null, expires_unix: null, granted_unix: null },
  ])
})

test('grants: levels, the old full mask, and reserved bits', () => {
  expect([null, 0x7f, 0x3f, 1, 0, 6].map(accessLevel)).toEqual([
    'full',
    'full',
    'full',
    'controller',
    'view',
    'custom',
  ])
  expect([null, 0x3f, 5].map(effectiveGrants)).toEqual([0x7f, 0x7f, 5])
  expect([0, 0x7f, 0x80, -1, 1.5].map(isGrantMask)).toEqual([true, true, false, false, false])
})

test('names: what cannot be seen goes, blanks are joined, 64 characters stay', () => {
  expect(sanitizeName('  Living\t\n room\u202e \u0007TV ')).toBe('Living room TV')
  expect(sanitizeName('\u200b\u2066\u3164\u2800')).toBe('')
  expect(deviceName('\u0000', 'abcdef0123'.padEnd(64, '0'))).toBe('device abcdef01')
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), raw => {
      const name = sanitizeName(raw)
      expect(Array.from(name).length).toBeLessThanOrEqual(64)
      expect(name).not.toMatch(/\p{C}|^\s|\s$|\s\s/u)
      expect(sanitizeName(name)).toBe(name)
    }),
  )
})

test('sources: this network or elsewhere', () => {
  const lan = [
    '127.0.0.1',
    '::1',
    '10.1.2.3',
    '172.31.0.1',
    '192.168.1.9',
    '169.254.9.9',
    'fe80::1%eth0',
    'fd12::1',
    '::ffff:192.168.0.2',
  ]
  const wan = [
    '8.8.8.8',
    '172.32.0.1',
    '2001:db8::1',
    '::ffff:1.2.3.4',
    '100.100.1.1',
    '',
    'nonsense',
    undefined,
  ]
  expect(lan.map(address => sourceOf(address, () => []))).toEqual(lan.map(() => 'lan'))
  expect(wan.map(address => sourceOf(address, () => []))).toEqual(wan.map(() => 'wan'))
  expect(sourceOf('100.100.1.1', () => ['192.168.1.2', '100.64.9.9'])).toBe('lan')
  fc.assert(fc.property(fc.string(), text => void expect(['lan', 'wan']).toContain(sourceOf(text, () => []))))
})
