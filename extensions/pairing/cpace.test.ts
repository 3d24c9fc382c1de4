// CPace against the draft's own test vectors and this protocol's, and against shares that must not be taken.
import { readFileSync } from 'node:fs'
import { ristretto255 } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { generator, lvCat, prependLen, readShare, respond, sessionKey } from './cpace.ts'

const vectors = JSON.parse(
  readFileSync(new URL('../native-plane/vectors/cpace.json', import.meta.url), 'utf8'),
)
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')
const hex = (data: Uint8Array): string => Buffer.from(data).toString('hex')
const scalar = (littleEndian: string): bigint => BigInt(`0x${hex(bytes(littleEndian).reverse())}`)

test('lengths are LEB128, as in the draft', () => {
  expect(hex(prependLen(Buffer.alloc(0)))).toBe('00')
  expect(hex(prependLen(Buffer.from('1234')))).toBe('0431323334')
  expect(hex(prependLen(Buffer.alloc(127))).slice(0, 2)).toBe('7f')
  expect(hex(prependLen(Buffer.alloc(128))).slice(0, 4)).toBe('8001')
  expect(hex(lvCat(Buffer.from('1234'), Buffer.from('5'), Buffer.alloc(0), Buffer.from('6789')))).toBe(
    '04313233340135000436373839',
  )
})

test('the draft: generator, shares, shared point and session key', () => {
  const v = vectors.draft
  const g = generator({ prs: bytes(v.PRS), ci: bytes(v.CI), sid: bytes(v.sid) })
  expect(hex(g.toBytes())).toBe(v.g)
  expect(hex(g.multiply(scalar(v.ya)).toBytes())).toBe(v.Ya)
  expect(hex(g.multiply(scalar(v.yb)).toBytes())).toBe(v.Yb)
  expect(hex(readShare(bytes(v.Ya))!.multiply(scalar(v.yb)).toBytes())).toBe(v.K)
  const isk = sessionKey(
    bytes(v.sid),
    bytes(v.K),
    { share: bytes(v.Ya), ad: bytes(v.ADa) },
    { share: bytes(v.Yb), ad: bytes(v.ADb) },
  )
  expect(hex(isk)).toBe(v.ISK)
})

test.each(vectors.pairing as any[])('this protocol: $name', v => {
  const ci = lvCat(Buffer.from('svc/1 pair'), bytes(v.client_fingerprint), bytes(v.host_fingerprint))
  expect(hex(ci)).toBe(v.CI)
  const host = respond(
    { prs: Buffer.from(v.pin), ci, sid: bytes(v.sid) },
    readShare(bytes(v.Ya))!,
    scalar(v.yb),
  )
  expect(hex(host.share)).toBe(v.Yb)
  expect(hex(host.confirm(bytes(v.Ta))!)).toBe(v.Tb)
  for (let i = 0; i < 32; i++) {
    const flipped = bytes(v.Ta)
    flipped[i]! ^= 1
    expect(host.confirm(flipped)).toBeUndefined()
  }
  expect(host.confirm(bytes(v.Tb))).toBeUndefined()
  expect(host.confirm(new Uint8Array(0))).toBeUndefined()
})

test('shares that must be refused', () => {
  const shares: any[] = vectors.refused_shares
  expect(shares.length).toBeGreaterThan(3)
  for (const each of shares) {
    const share = typeof each === 'string' ? each : each.share
    expect(readShare(bytes(share)), JSON.stringify(each)).toBeUndefined()
  }
  expect(readShare(ristretto255.Point.ZERO.toBytes())).toBeUndefined()
})

test('any bytes are an element other than the identity or no share, never an error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 40 }), data => {
      const element = readShare(data)
      if (element) expect(hex(element.toBytes())).toBe(hex(data))
    }),
  )
})

test('another PIN, another device or another connection gives other keys', () => {
  const inputs = { prs: Buffer.from('1234'), ci: Buffer.from('ci'), sid: Buffer.alloc(32, 7) }
  const share = readShare(generator(inputs).multiply(99n).toBytes())!
  const keys = [
    inputs,
    { ...inputs, prs: Buffer.from('1235') },
    { ...inputs, ci: Buffer.from('cj') },
    { ...inputs, sid: Buffer.alloc(32, 8) },
  ].map(each => hex(respond(each, share, 5n).share))
  expect(new Set(keys).size).toBe(4)
})
