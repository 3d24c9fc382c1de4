// Host info: what a client or the console needs to know of this host before anything else.
import { abiVersion } from 'svc-host/api/discovery'
import type { HostInfo } from 'svc-host/sdk'
import type { HostFacts, HostRecord } from './api.ts'
import { currentLanAddress } from './lan-address.ts'
import type { OsName } from './os.ts'

/** The compatible plane's usual ports; all are named even on a host that does not serve it. */
const usualPorts = { http: 47989, https: 47984, rtsp: 48010, video: 47998, control: 47999, audio: 48000 }

export interface HostInfoOptions {
  facts(): Promise<HostFacts>
  readonly host: Pick<HostInfo, 'version' | 'mgmtPort'>
  readonly fingerprint: string
  readonly uniqueId: string
  readonly hostName: string
  readonly os: OsName
}

export const createHostInfo = (options: HostInfoOptions) => async (): Promise<HostRecord> => {
  const [facts, localIp] = await Promise.all([options.facts(), currentLanAddress()])
  return {
    hostname: options.hostName,
    uniqueid: options.uniqueId,
    local_ip: localIp,
    version: options.host.version,
    abi_version: abiVersion,
    os: options.os.chain,
    os_name: options.os.name,
    codecs: facts.codecs,
    compat: facts.compat,
    fingerprint: options.fingerprint || null,
    ports: { ...usualPorts, ...facts.ports, mgmt: options.host.mgmtPort },
    app_version: facts.compat ? (facts.appVersion ?? '') : '',
    compat_vendor_version: facts.compat ? (facts.compatVendorVersion ?? '') : '',
  }
}
