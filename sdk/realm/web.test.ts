// The small parts of the web platform in isolates, beside those of Node.
import { createCipheriv, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Headers, Response } from './fetch.ts'
import { block, fill, randomUuid, seed } from './random.ts'
import * as web from './web.ts'

test('the key stream is that of ChaCha20', () => {
  for (let round = 0; round < 20; round++) {
    const [key, iv] = [randomBytes(32), randomBytes(16)]
    const words = new Uint32Array(Uint8Array.from(iv).buffer)
    const ours = block(new Uint32Array(Uint8Array.from(key).buffer), words[0]!, words.slice(1))
    const theirs = createCipheriv('chacha20', key, iv).update(Buffer.alloc(64))
    expect(Buffer.from(ours.buffer)).toEqual(theirs)
  }
})

test('random numbers come from the seed on, and never again', () => {
  expect(() => fill(new Uint8Array(1))).toThrow('from the setup on')
  seed(randomBytes(32))
  const drawn = Array.from({ length: 50 }, () => Buffer.from(fill(new Uint8Array(33))).toString('hex'))
  expect(new Set(drawn).size).toBe(50)
  expect(fill(new Uint16Array(1000)).filter(n => n > 0xff).length).toBeGreaterThan(900)
  expect(() => fill(new Uint8Array(65537))).toThrow('at most 65536')
  expect(randomUuid()).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
})

test('property: copies of data are what Node makes of it', () => {
  const data = fc.anything({
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
    withBigInt: true,
  })
  fc.assert(
    fc.property(data, value => {
      expect(web.structuredClone(value)).toEqual(structuredClone(value))
    }),
  )
  const ring: Record<string, unknown> = { a: [1] }
  ring['self'] = ring
  const copy = web.structuredClone(ring)
  expect(copy['self']).toBe(copy)
  expect(copy).not.toBe(ring)
  expect(() => web.structuredClone({ f: () => 1 })).toThrow('a function cannot be cloned')
  expect(Object.getPrototypeOf(web.structuredClone(JSON.parse('{"__proto__": {"x": 1}}')))).toBe(
    Object.prototype,
  )
})

test('text and base64 as Node has them, and refusals of what is not there', () => {
  expect(new web.TextDecoder().decode(new web.TextEncoder().encode('\ufeffgrün'))).toBe('grün')
  expect(web.btoa('\u00ffa')).toBe(btoa('\u00ffa'))
  expect(web.atob('/2E=')).toBe('\u00ffa')
  expect(() => web.btoa('…')).toThrow('up to U+00FF')
  expect(() => new web.TextDecoder('latin1')).toThrow('utf-8 only, not latin1')
})

test('headers and answers as Node has them', async () => {
  const pairs: [string, string][] = [
    ['B', ' 2 '],
    ['a', '1'],
    ['b', '3'],
    ['set-cookie', 'x=1'],
    ['Set-Cookie', 'y=2'],
  ]
  const [ours, theirs] = [new Headers(pairs), new globalThis.Headers(pairs)]
  expect([...ours]).toEqual([...theirs])
  expect(ours.getSetCookie()).toEqual(theirs.getSetCookie())
  for (const wrong of [{ 'a b': '1' }, { a: 'x\r\nb: 1' }, { a: 'x\0' }, { a: '…' }])
    expect(() => new Headers(wrong as never)).toThrow(TypeError)
  const answer = new Response('{"a": 1}', { status: 201, headers: { x: 'y' } })
  expect([answer.ok, answer.status, answer.headers.get('X')]).toEqual([true, 201, 'y'])
  expect(await answer.clone().json()).toEqual({ a: 1 })
  expect(new Uint8Array(await answer.arrayBuffer()).length).toBe(8)
  await expect(answer.text()).rejects.toThrow('read already')
  expect(() => answer.body).toThrow('no streams in this realm')
})
