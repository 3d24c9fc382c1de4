// Which hosts a stranger's code may reach: names checked against what was granted, addresses against what is public, and
// connections that go to the very address that was checked.
import { lookup as systemLookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** Not of the public internet: this host, its networks, what is kept for documents and tests, multicast, tunnels. */
const special = new BlockList()
const special4 =
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 ' +
  '192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'
/** Within 2000::/3; outside it nothing is public. */
const special6 = '2001::/23 2001:db8::/32 2002::/16 3fff::/20'
for (const [list, family] of [[special4, 'ipv4'] as const, [special6, 'ipv6'] as const])
  for (const net of list.split(' ')) {
    const [address, bits] = net.split('/')
    special.addSubnet(address!, Number(bits), family)
  }
const global6 = new BlockList()
global6.addSubnet('2000::', 3, 'ipv6')

/** Whether a numeric address belongs to the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !special.check(address, 'ipv4')
  if (isIP(address) !== 6 || address.includes('%')) return false
  return global6.check(address, 'ipv6') && !special.check(address, 'ipv6')
}

export interface Target {
  /** In lower case, without a dot at the end; addresses in their shortest form, IPv6 in brackets. */
  readonly host: string
  readonly port: number
}

/** Where a URL leads; throws where that is no host. */
export function targetOf({ protocol, hostname, port }: URL): Target {
  const host = hostname.replace(/\.$/, '')
  if (!host) throw new Error(`a URL of ${protocol} names no host; use http:// or https://`)
  return { host, port: Number(port) || (protocol === 'https:' || protocol === 'wss:' ? 443 : 80) }
}

const permissionFor = ({ host, port }: Target): string => `network:${host}:${port}`
/** As a URL writes it, so that each address has one form. */
const hostOf = (address: string): string =>
  isIP(address) === 6 ? new URL(`http://[${address.replace(/%.*/, '')}]`).hostname : address

export interface Egress {
  /** Throws unless this host was granted at this port; for a numeric address nothing more has to be checked. */
  check(target: Target): void
  /** For `connect` after `check`: gives those addresses of a name that may be reached at this port, or fails. */
  lookup(port: number): LookupFunction
}

/**
 * `may` throws where a permission was not granted. An address that is not public must be granted itself, however it was
 * named; only `localhost` stands for the loopback addresses.
 */
export function createEgress(may: (permission: string) => void, resolve = systemLookup): Egress {
  const checkAddress = (host: string, address: string, port: number): void => {
    if (isPublicAddress(address)) return
    const isLoopback = address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
    if (host === 'localhost' && isLoopback) return
    try {
      may(permissionFor({ host: hostOf(address), port }))
    } catch (error) {
      if (error instanceof Error)
        error.message = `${host} is at ${address}, which is not a public address: ${error.message}`
      throw error
    }
  }
  return {
    check: target => may(permissionFor(target)),
    lookup: port => (name, options, done) => {
      resolve(name, { ...options, all: true }, (error, found) => {
        if (error) return done(error, '')
        const host = name.toLowerCase().replace(/\.$/, '')
        let refused: unknown
        const reachable = found.filter(({ address }) => {
          try {
            checkAddress(host, address, port)
            return true
          } catch (why) {
            refused ??= why
            return false
          }
        })
        if (reachable.length === 0)
          return done((refused ?? new Error(`${host} has no address`)) as NodeJS.ErrnoException, '')
        if (options.all) return done(null, reachable)
        done(null, reachable[0]!.address, reachable[0]!.family)
      })
    },
  }
}
