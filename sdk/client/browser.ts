// The API client in a browser: requests by `fetch`, and a device key instead of a certificate and a token.
import { type ApiClient, createClient, type RawAnswer, type Transport } from './api-client.ts'
import { bytesOf, type DeviceKey, signFor, spkiOf } from './device-key.ts'
import { ApiError } from './errors.ts'

export type { ApiClient } from './api-client.ts'
export type { ApiMethod, ApiPath, CallAnswer, CallArguments, CallOptions } from './call.ts'
export { createDeviceKey, type DeviceKey } from './device-key.ts'
export { ApiError, type ApiErrorCode } from './errors.ts'
export type { EventEnvelope, Followed, FollowOptions, HostEvent } from './follow.ts'

export interface BrowserOptions {
  /** Base URL of the host; default the page's own origin. */
  readonly url?: string
  readonly key: DeviceKey
  /** SHA-256 of the host's certificate in hex: which host the key is proven to. A page cannot look at it by itself. */
  readonly hostFingerprint: string
}

/** A token is asked for anew when the one in use has less than this left. */
const renewBeforeMs = 60_000

const transportTo = (
  origin: string,
  bearer: (signal?: AbortSignal) => Promise<string | undefined>,
): Transport => ({
  origin,
  async send(method, path, headers, body, signal): Promise<RawAnswer> {
    const token = await bearer(signal)
    const answer = await fetch(new URL(path, origin), {
      method,
      credentials: 'omit',
      redirect: 'error',
      headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    })
    return {
      status: answer.status,
      type: answer.headers.get('content-type') ?? '',
      body: (answer.body ?? []) as AsyncIterable<Uint8Array>,
    }
  },
  close() {},
})

const originOf = (url = (globalThis as { location?: { origin: string } }).location?.origin ?? ''): string => {
  if (URL.canParse(url) && new URL(url).protocol === 'https:') return new URL(url).origin
  throw new ApiError('unconfigured', `"${url}" is no https:// address of a host`)
}

/**
 * Opens the API as this browser: a token is had with the device key when it is needed, and renewed before it ends. Every
 * call rejects with `unauthorized` while the key is not paired, or no longer.
 */
export function openApi({ url, key, hostFingerprint }: BrowserOptions): ApiClient {
  const origin = originOf(url)
  const open = createClient(transportTo(origin, async () => undefined))
  let token: Promise<{ token: string; expires_at: number }> | undefined
  const fetchToken = async (): Promise<{ token: string; expires_at: number }> => {
    const { nonce } = await open.call('POST', '/auth/device/challenge')
    const [device_key, signature] = await Promise.all([
      spkiOf(key),
      signFor(key, 'svc-device-auth-v1', hostFingerprint, bytesOf(nonce)),
    ])
    return open.call('POST', '/auth/device/token', { body: { device_key, nonce, signature } })
  }
  const bearer = async (): Promise<string> => {
    const now = await token?.catch(() => undefined)
    if (!now || now.expires_at * 1000 - Date.now() < renewBeforeMs) token = fetchToken()
    return (await token!).token
  }
  return createClient(transportTo(origin, bearer))
}

/** Asks the operator of the host to pair this browser, under this name; `openApi` works once that is approved. */
export async function knock({ url, key, hostFingerprint }: BrowserOptions, name: string): Promise<void> {
  const open = createClient(transportTo(originOf(url), async () => undefined))
  const [device_key, signature] = await Promise.all([
    spkiOf(key),
    signFor(key, 'svc-device-knock-v1', hostFingerprint, new TextEncoder().encode(name)),
  ])
  await open.call('POST', '/auth/device/knock', { body: { device_key, name, signature } })
}
