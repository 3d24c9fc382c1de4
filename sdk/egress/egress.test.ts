// What counts as public, what a grant opens, and that a name never leads to an address that was not checked.
import type { lookup } from 'node:dns'
import fc from 'fast-check'
import { createEgress, isPublicAddress, type Target, targetOf } from 'svc-host/egress'
import { expect, test } from 'vitest'
import { covers } from '../permission.ts'

const mayOf =
  (...grants: string[]) =>
  (permission: string): void => {
    if (!grants.some(grant => covers(grant, permission))) throw new Error(`${permission} was not granted`)
  }
/** What a resolver says, each call the next of these. */
const answers = (...lists: string[][]): typeof lookup => {
  const all = lists.map(list => list.map(address => ({ address, family: address.includes(':') ? 6 : 4 })))
  return ((_name: string, _options: object, done: (error: null, found: object) => void) =>
    done(null, all.length > 1 ? all.shift()! : all[0]!)) as never
}
const reach = (grants: string[], url: string, ...lists: string[][]): Promise<string[]> => {
  const { check, lookup } = createEgress(mayOf(...grants), answers(...lists))
  const target: Target = targetOf(new URL(url))
  check(target)
  return new Promise((resolve, reject) => {
    lookup(target.port)(target.host, { all: true }, (error, found) =>
      error ? reject(error) : resolve((found as { address: string }[]).map(({ address }) => address)),
    )
  })
}

test.each([
  ...'0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.255 169.254.169.254 172.31.0.1 192.168.1.1'.split(
    ' ',
  ),
  ...'198.18.0.1 224.0.0.1 255.255.255.255 :: ::1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 64:ff9b::7f00:1'.split(' '),
  ...'fe80::1 fe80::1%eth0 fd00::1 fec0::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1::1 100::1 x'.split(' '),
])('%s is not public', address => expect(isPublicAddress(address)).toBe(false))
test.each('1.1.1.1 8.8.8.8 172.32.0.1 100.63.255.255 2606:4700::1111 2a00:1450:4001::200e'.split(' '))(
  '%s is public',
  address => expect(isPublicAddress(address)).toBe(true),
)

test('a URL leads where its host stands in the one form that permissions have', () => {
  const of = (url: string) => Object.values(targetOf(new URL(url))).join(' ')
  expect(of('https://API.Example.com./x')).toBe('api.example.com 443')
  expect(of('http://2130706433/')).toBe('127.0.0.1 80')
  expect(of('http://0x7f.1:8080/')).toBe('127.0.0.1 8080')
  expect(of('http://[::FFFF:127.0.0.1]/')).toBe('[::ffff:7f00:1] 80')
  expect(() => of('data:text/plain,x')).toThrow('names no host')
})

test('a granted name leads to its public addresses only', async () => {
  const api = ['network:api.example.com']
  expect(await reach(api, 'https://api.example.com', ['1.1.1.1', '10.0.0.1'])).toEqual(['1.1.1.1'])
  await expect(reach(api, 'https://api.example.com', ['127.0.0.1', '::1'])).rejects.toThrow(
    'api.example.com is at 127.0.0.1, which is not a public address: network:127.0.0.1:443 was not granted',
  )
  await expect(reach(api, 'https://api.example.com', ['::ffff:169.254.169.254'])).rejects.toThrow(
    'not a public',
  )
  await expect(reach(api, 'https://api.example.com', [])).rejects.toThrow('has no address')
  expect(() => reach(api, 'https://api.example.com:8443', [])).toThrow(':8443 was not granted')
  expect(() => reach(api, 'https://evil.example.com', [])).toThrow('network:evil.example.com:443')
})

test('what is not public is reached where its address was granted itself', async () => {
  const grants = ['network:nas.home:8080', 'network:192.168.1.7:8080', 'network:localhost:3000']
  expect(await reach(grants, 'http://nas.home:8080', ['192.168.1.7'])).toEqual(['192.168.1.7'])
  await expect(reach(grants, 'http://nas.home:8080', ['192.168.1.8'])).rejects.toThrow('not a public')
  expect(await reach(grants, 'http://localhost:3000', ['::1', '127.0.0.1'])).toEqual(['::1', '127.0.0.1'])
  await expect(reach(grants, 'http://localhost:3000', ['192.168.1.7'])).rejects.toThrow('not a public')
  expect(() => reach(['network:*.0.0.1'], 'http://127.0.0.1', [])).toThrow('was not granted')
})

test('property: without a grant for an address nothing but public addresses comes out', async () => {
  const address = fc.oneof(fc.ipV4(), fc.ipV6())
  await fc.assert(
    fc.asyncProperty(fc.array(address, { maxLength: 4 }), async list => {
      const found = await reach(['network:*.example.com'], 'https://a.example.com', list).catch(() => [])
      expect(found.every(isPublicAddress)).toBe(true)
    }),
  )
})
