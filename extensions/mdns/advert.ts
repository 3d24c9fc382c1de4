// What the local network is told of this host: the DNS-SD service of the native plane, as a value.

/** Everything that an advert says (wire-decisions, "Ports"). */
export interface Advert {
  /** Instance name: at most 63 bytes of UTF-8. */
  readonly name: string
  /** Service type without underscores, of at most 15 characters (RFC 6763, section 7). */
  readonly type: 'svc-stream'
  /** TCP and UDP port of the native plane. */
  readonly port: number
  readonly txt: Readonly<Record<string, string>>
}

export interface AdvertFacts {
  readonly hostName: string
  /** `uniqueid` of host info. */
  readonly hostId: string
  /** SHA-256 of the certificate that both planes and the API show, in hex. */
  readonly fingerprint: string
  readonly nativePort: number
  readonly mgmtPort: number
  readonly isPairingRequired: boolean
}

const nameLimitBytes = 63

/** A label of DNS-SD: without control characters, cut between characters. */
export function instanceName(text: string): string {
  const clean = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .trim()
  let name = ''
  for (const { segment } of new Intl.Segmenter().segment(clean)) {
    if (Buffer.byteLength(name + segment) > nameLimitBytes) break
    name += segment
  }
  return name.trim() || 'svc-host'
}

export const makeAdvert = (facts: AdvertFacts): Advert => ({
  name: instanceName(facts.hostName),
  type: 'svc-stream',
  port: facts.nativePort,
  txt: {
    txtvers: '1',
    id: facts.hostId,
    mgmt: String(facts.mgmtPort),
    fp: facts.fingerprint,
    pair: facts.isPairingRequired ? 'required' : 'open',
  },
})
