// Where a connection comes from: this network, or somewhere else (wire-decisions, "Pending devices").
import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

export type Source = 'lan' | 'wan'

const nearby = new BlockList()
nearby.addSubnet('127.0.0.0', 8)
nearby.addSubnet('10.0.0.0', 8)
nearby.addSubnet('172.16.0.0', 12)
nearby.addSubnet('192.168.0.0', 16)
nearby.addSubnet('169.254.0.0', 16)
nearby.addAddress('::1', 'ipv6')
nearby.addSubnet('fe80::', 10, 'ipv6')
nearby.addSubnet('fc00::', 7, 'ipv6')

/** Carrier-grade range: strangers of the same provider, or a mesh VPN when this machine has an address in it too. */
const shared = new BlockList()
shared.addSubnet('100.64.0.0', 10)

/** Addresses of this machine's own interfaces. */
const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap(all => (all ?? []).map(({ address }) => address))

/** `::ffff:192.0.2.1` and zone ids as plain addresses. */
const plain = (address: string): string => address.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')

const within = (list: BlockList, address: string): boolean => {
  const family = isIP(address)
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** An unknown address is `wan`. `own`: addresses of this machine, looked up when left out. */
export const sourceOf = (
  address: string | undefined,
  own: () => readonly string[] = ownAddresses,
): Source => {
  const peer = plain(address ?? '')
  if (within(nearby, peer)) return 'lan'
  return within(shared, peer) && own().some(a => within(shared, plain(a))) ? 'lan' : 'wan'
}

/** Whether two addresses are the same peer, as limits count: a host of IPv6 owns a whole /64. */
export const isSamePeer = (a: string | undefined, b: string | undefined): boolean => {
  const [one, other] = [plain(a ?? ''), plain(b ?? '')]
  if (isIP(one) !== 6 || isIP(other) !== 6) return one === other
  const network = new BlockList()
  network.addSubnet(one, 64, 'ipv6')
  return network.check(other, 'ipv6')
}
