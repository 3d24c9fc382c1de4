// Who may call a route: the order of checks as one pure function, and the look-ups that feed it.
import { createHash, timingSafeEqual } from 'node:crypto'
import { type Caller, type DeviceRegistry, HttpError, type Lanes, type PluginTokens } from 'svc-host/sdk'

/** The other end of a connection. */
export interface Peer {
  readonly address: string
  readonly loopback: boolean
  /** SHA-256 of the client certificate's DER in lowercase hex; null: it showed none. */
  readonly fingerprint: string | null
}

/** What the bearer has turned out to be; `unknown`: none of the host's tokens. */
export type Credential = 'none' | 'unknown' | 'admin' | { readonly plugin: string | null }

/** The facts that decide; `device`: fingerprint of the paired device behind certificate or token, if any. */
export interface Presented {
  readonly address: string
  readonly loopback: boolean
  readonly device?: string
  readonly credential: Credential
  /** The id that the route is about (path parameter `id` or `provider`). */
  readonly target?: string
}

export interface Refused {
  readonly status: 401 | 403
  readonly message: string
}

const refused = (status: 401 | 403, message: string): Refused => ({ status, message })
const wrongCredential = refused(401, 'missing or wrong credential')

/** Decides who the caller is, or with what the call is refused. Steps as in wire-decisions, "Order of checks". */
export function admit(lanes: Lanes, presented: Presented): Caller | Refused {
  const { address, loopback, device, credential, target } = presented
  if (lanes === 'open') return { lane: 'open', address }
  if (lanes === 'loopback') return loopback ? { lane: 'loopback', address } : wrongCredential
  if (device !== undefined && lanes.device) return { lane: 'device', address, fingerprint: device }
  if (!loopback)
    return credential === 'none'
      ? wrongCredential
      : refused(401, 'admin calls are accepted on this machine only')
  if (credential === 'admin') return { lane: 'admin', address }
  if (typeof credential === 'string') return wrongCredential
  const id = credential.plugin
  if (!lanes.plugin || (id !== null && lanes.plugin === 'runner'))
    return refused(403, 'not open to plugin tokens')
  if (id !== null && lanes.plugin === 'own' && id !== target)
    return refused(403, 'this token may only write its own id')
  return { lane: 'plugin', address, id }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Compares secrets in constant time, whatever their lengths. */
export const sameSecret = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))

export interface Keys {
  readonly adminToken: string
  readonly devices?: DeviceRegistry
  readonly plugins?: PluginTokens
}

/** Looks up what a caller shows and decides; throws the refusal. */
export async function authorize(
  lanes: Lanes,
  peer: Peer,
  bearer: string | undefined,
  target: string | undefined,
  keys: Keys,
): Promise<Caller> {
  const { address, loopback, fingerprint } = peer
  let device: string | undefined
  let credential: Credential = bearer === undefined ? 'none' : 'unknown'
  if (typeof lanes === 'object') {
    if (lanes.device && keys.devices) {
      const found =
        (fingerprint && (await keys.devices.byFingerprint(fingerprint))) ||
        (bearer && (await keys.devices.byToken(bearer)))
      if (found) device = found.fingerprint
    }
    if (bearer !== undefined && loopback) {
      if (sameSecret(bearer, keys.adminToken)) credential = 'admin'
      else {
        const plugin = await keys.plugins?.resolve(bearer)
        if (plugin) credential = { plugin: plugin.id }
      }
    }
  }
  const outcome = admit(lanes, { address, loopback, device, credential, target })
  if ('lane' in outcome) return outcome
  throw new HttpError(outcome.status, outcome.message)
}
