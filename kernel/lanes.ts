// Who may call a route: the order of checks as one pure function, and the look-ups that feed it.
import { hash, timingSafeEqual } from 'node:crypto'
import {
  type Caller,
  type DeviceRegistry,
  HttpError,
  type Lanes,
  type PluginTokens,
  type Route,
} from 'svc-host/sdk'
import { gives } from './permissions.ts'

/** The other end of a connection. */
export interface Peer {
  readonly address: string
  readonly loopback: boolean
  /** SHA-256 of the client certificate's DER in lowercase hex; null: it showed none. */
  readonly fingerprint: string | null
}

/** What the bearer has turned out to be; `unknown`: none of the host's tokens. */
export type Credential = 'none' | 'unknown' | 'admin' | PluginCredential

export interface PluginCredential {
  /** null: the runner. */
  readonly plugin: string | null
  /** Whether that plugin has a permission. */
  may(permission: string): boolean
}

/** The facts that decide; `device`: fingerprint of the paired device behind certificate or token, if any. */
export interface Presented {
  readonly address: string
  readonly loopback: boolean
  readonly device?: string
  readonly credential: Credential
  /** The id that the route is about (path parameter `id` or `provider`). */
  readonly target?: string
  /** What a plugin needs to call the route. */
  readonly needs: string
}

export interface Refused {
  readonly status: 401 | 403
  readonly message: string
}

const refused = (status: 401 | 403, message: string): Refused => ({ status, message })
const wrongCredential = refused(401, 'missing or wrong credential')

/** Decides who the caller is, or with what the call is refused. Steps as in wire-decisions, "Order of checks". */
export function admit(lanes: Lanes, presented: Presented): Caller | Refused {
  const { address, loopback, device, credential, target, needs } = presented
  if (lanes === 'open') return { lane: 'open', address }
  const plugin = typeof credential === 'object' ? credential : undefined
  const lacking =
    plugin && plugin.plugin !== null && !plugin.may(needs)
      ? refused(403, `${plugin.plugin} has not been granted ${needs}`)
      : undefined
  if (lanes === 'loopback') return loopback ? (lacking ?? { lane: 'loopback', address }) : wrongCredential
  if (device !== undefined && lanes.device) return { lane: 'device', address, fingerprint: device }
  if (!loopback)
    return credential === 'none'
      ? wrongCredential
      : refused(401, 'admin calls are accepted on this machine only')
  if (credential === 'admin') return { lane: 'admin', address }
  if (!plugin) return wrongCredential
  const id = plugin.plugin
  if (!lanes.plugin || (id !== null && lanes.plugin === 'runner'))
    return refused(403, 'not open to plugin tokens')
  if (id !== null && lanes.plugin === 'own' && id !== target)
    return refused(403, 'this token may only write its own id')
  if (lanes.plugin === 'all' && lacking) return lacking
  return { lane: 'plugin', address, id }
}

const digest = (text: string): Buffer => hash('sha256', text, 'buffer')

/** Compares secrets in constant time, whatever their lengths. */
export const sameSecret = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))

export interface Keys {
  readonly adminToken: string
  readonly devices?: DeviceRegistry
  readonly plugins?: PluginTokens
  /** Whether an extension has a permission; undefined: it is none whose calls are checked. */
  may(id: string, permission: string): boolean | undefined
}

/** Where a call comes from: a connection, or an extension through the kernel. */
export type Source =
  | { readonly peer: Peer; readonly bearer: string | undefined }
  | { readonly extension: string }

/** A token by the name of one whose calls are not checked gives what comes with it all the same, and no more. */
const byToken = (
  { id, permissions = [] }: { id: string | null; permissions?: readonly string[] },
  { may }: Keys,
): PluginCredential => ({
  plugin: id,
  may: needed => id === null || (may(id, needed) ?? permissions.some(each => gives(each, needed))),
})

const decide = (lanes: Lanes, presented: Presented): Caller => {
  const outcome = admit(lanes, presented)
  if ('lane' in outcome) return outcome
  throw new HttpError(outcome.status, outcome.message)
}

/** Looks up what a caller shows and decides; throws the refusal. */
export async function authorize(
  { lanes, tag = '*', stream, upgrade }: Route,
  source: Source,
  target: string | undefined,
  keys: Keys,
): Promise<Caller> {
  const needs = `api:${tag}`
  if ('extension' in source) {
    if (stream || upgrade) throw new HttpError(406, 'this path streams; ctx.api takes whole answers only')
    const { extension } = source
    const credential = { plugin: extension, may: (needed: string) => keys.may(extension, needed) ?? true }
    return decide(lanes, { address: '127.0.0.1', loopback: true, credential, target, needs })
  }
  const { peer, bearer } = source
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
        const found = await keys.plugins?.resolve(bearer)
        if (found) credential = byToken(found, keys)
      }
    }
  }
  return decide(lanes, { address, loopback, device, credential, target, needs })
}
