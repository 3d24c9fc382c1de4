// Status: the name of the system, the LAN address, and records that survive taps that get them wrong.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LocalSummary, StatusRecord } from './api.ts'
import { createCollector, mend, sortCodecs } from './collector.ts'
import { defaultInterface, type Interfaces, lanAddress } from './lan-address.ts'
import { osName, parseOsRelease } from './os.ts'

test('the system is a chain from generic to specific', () => {
  const chain = (text: string) => osName(parseOsRelease(text)).chain
  expect(chain('ID=debian\n')).toBe('linux/debian')
  expect(chain('ID=ubuntu\nID_LIKE=debian\n')).toBe('linux/debian/ubuntu')
  expect(chain('ID=linuxmint\nID_LIKE="ubuntu debian"\n')).toBe('linux/debian/linuxmint')
  expect(chain("ID='rocky'\nID_LIKE='rhel centos fedora'\n")).toBe('linux/fedora/rocky')
  expect(chain('')).toBe('linux')
  expect(osName(parseOsRelease('PRETTY_NAME="Say \\"hi\\" 1"\n')).name).toBe('Say "hi" 1')
  expect(osName({}).name).toBe('Linux')
})

test('any os-release file makes a well-formed chain', () => {
  const line = fc.oneof(
    fc.string(),
    fc.tuple(fc.constantFrom('ID', 'ID_LIKE', 'NAME'), fc.string()).map(([k, v]) => `${k}=${v}`),
  )
  fc.assert(
    fc.property(fc.array(line), lines => {
      const { chain, name } = osName(parseOsRelease(lines.join('\n')))
      expect(chain).toMatch(/^linux(\/[a-z0-9._-]+){0,2}$/)
      expect(name.length).toBeGreaterThan(0)
    }),
  )
})

const ipv4 = (address: string, internal = false) =>
  ({ address, internal, family: 'IPv4', netmask: '', mac: '', cidr: null }) as const

test('the LAN address is the default route’s, else a real interface’s, else loopback', () => {
  const interfaces: Interfaces = {
    lo: [ipv4('127.0.0.1', true)],
    docker0: [ipv4('172.17.0.1')],
    wlan0: [ipv4('192.168.1.7')],
    eth0: [ipv4('169.254.3.3'), ipv4('10.0.0.5')],
  }
  expect(lanAddress(interfaces, 'eth0')).toBe('10.0.0.5')
  expect(lanAddress(interfaces, 'tun9')).toBe('192.168.1.7')
  expect(lanAddress({ docker0: interfaces['docker0'] }, undefined)).toBe('172.17.0.1')
  expect(lanAddress({ lo: interfaces['lo'], eth0: undefined }, 'eth0')).toBe('127.0.0.1')
})

test('the default interface is the one with the lowest metric, and any text is read', () => {
  const head = 'Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n'
  const row = (name: string, destination: string, flags: string, metric: number) =>
    `${name}\t${destination}\t0100000A\t${flags}\t0\t0\t${metric}\t00000000\n`
  const table =
    head +
    row('wlan0', '00000000', '0003', 600) +
    row('eth0', '00000000', '0003', 100) +
    row('down0', '00000000', '0002', 1) +
    row('eth1', '0000000A', '0001', 0)
  expect(defaultInterface(table)).toBe('eth0')
  expect(defaultInterface(head)).toBeUndefined()
  fc.assert(fc.property(fc.string(), text => void defaultInterface(`${head}${text}`)))
})

test('codecs come once each, in the order of the wire', () => {
  expect(sortCodecs(['vc2', 'h264', 'zz', 'av1', 'h264', 'hevc'])).toEqual([
    'h264',
    'hevc',
    'av1',
    'vc2',
    'zz',
  ])
})

const collectorOf = (status: (r: StatusRecord) => unknown, warnings: string[] = []) =>
  createCollector({
    host: async facts => facts,
    status: async record => status(record) as StatusRecord,
    summary: async record => ({ ...record, version: 'forged' }),
    version: '1.2.3',
    warn: message => void warnings.push(message),
  })

test('a field of the wrong shape keeps its default and is said once; the rest is kept', async () => {
  const warnings: string[] = []
  const collector = collectorOf(
    record => ({ ...record, active_sessions: 'two', paired_clients: 3 }),
    warnings,
  )
  expect(await collector.status()).toMatchObject({ active_sessions: 0, paired_clients: 3, sessions: [] })
  await collector.status()
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toContain('"active_sessions"')
})

test('the version in the summary is the host’s own', async () => {
  expect((await collectorOf(r => r).summary()).version).toBe('1.2.3')
})

test('whatever the taps leave, the record fits its schema', async () => {
  const record = fc.record(
    Object.fromEntries(Object.keys(StatusRecord.shape).map(key => [key, fc.anything()])),
    {
      requiredKeys: [],
    },
  )
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.anything(), record), async junk => {
      StatusRecord.parse(await collectorOf(() => junk).status())
    }),
  )
  expect(mend(LocalSummary, { version: '1' }, null).mended).toContain('games')
})
