// The address under which the local network finds this machine, looked up at the moment of asking.
import { readFile } from 'node:fs/promises'
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'

export type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>

/** Bridges and tunnels of containers and virtual machines: nobody on the LAN reaches the host through them. */
const virtual = /^(docker|br-|veth|virbr|vmnet|vboxnet|cni|flannel|lxc|podman)/
const isLinkLocal = (address: string): boolean => address.startsWith('169.254.')

/** The interface of the default route with the lowest metric, from the text of `/proc/net/route`. */
export function defaultInterface(table: string): string | undefined {
  const rows = table
    .split('\n')
    .slice(1)
    .map(line => line.trim().split(/\s+/))
    .filter(
      ([name, destination, , flags]) =>
        name && destination === '00000000' && (Number.parseInt(flags ?? '', 16) & 1) === 1,
    )
    .map(fields => ({ name: fields[0]!, metric: Number(fields[6] ?? Number.NaN) }))
    .filter(({ metric }) => Number.isFinite(metric))
  return rows.sort((a, b) => a.metric - b.metric)[0]?.name
}

/** The best IPv4 address: of the default route, else of a real interface, else any; `127.0.0.1` when there is none. */
export function lanAddress(interfaces: Interfaces, preferred: string | undefined): string {
  const found = Object.entries(interfaces).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter(({ family, internal }) => family === 'IPv4' && !internal)
      .map(({ address }) => ({
        address,
        cost: (isLinkLocal(address) ? 4 : 0) + (virtual.test(name) ? 2 : 0) + (name === preferred ? 0 : 1),
      })),
  )
  return found.sort((a, b) => a.cost - b.cost)[0]?.address ?? '127.0.0.1'
}

export async function currentLanAddress(): Promise<string> {
  const table = await readFile('/proc/net/route', 'utf8').catch(() => '')
  return lanAddress(networkInterfaces(), defaultInterface(table))
}
