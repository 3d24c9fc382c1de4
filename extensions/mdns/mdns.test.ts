// What an advert says, whatever the host is called.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { instanceName, makeAdvert } from './advert.ts'

test('an advert names ports, certificate and whether pairing is required', () => {
  const facts = {
    hostName: 'Den',
    hostId: 'A1',
    fingerprint: 'f'.repeat(64),
    nativePort: 9777,
    mgmtPort: 47990,
  }
  expect(makeAdvert({ ...facts, isPairingRequired: true })).toEqual({
    name: 'Den',
    type: 'svc-stream',
    port: 9777,
    txt: { txtvers: '1', id: 'A1', mgmt: '47990', fp: 'f'.repeat(64), pair: 'required' },
  })
  expect(makeAdvert({ ...facts, isPairingRequired: false }).txt['pair']).toBe('open')
})

test('any name becomes a label that fits', () => {
  expect(instanceName('  Höhle; 2\u0000 ')).toBe('Höhle; 2')
  expect(instanceName('\u202e\n')).toBe('svc-host')
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => {
      const name = instanceName(text)
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
      expect(name.isWellFormed() && name === name.trim() && name !== '').toBe(true)
      expect(instanceName(name)).toBe(name)
    }),
  )
})
