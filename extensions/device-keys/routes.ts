// The routes by which a browser pairs its key and gets tokens; open, since whoever calls has no credential yet.
import type { KnockRefusal, PairingQueue, PairingRoster } from 'svc-host/api/pairing'
import { HttpError, type Route, route } from 'svc-host/sdk'
import type { BrowserExchange } from './exchange.ts'
import { knockMessage, readDeviceKey, tokenMessage } from './key.ts'
import { Challenge, KnockRequest, PairAnswer, PairRequest, TokenAnswer, TokenRequest } from './schema.ts'
import { type createNonces, type createTokens, nonceSeconds, tokenSeconds } from './spent.ts'

export interface RouteParts {
  readonly hostFingerprint: string
  readonly roster: PairingRoster
  readonly queue: PairingQueue
  readonly exchange: BrowserExchange
  readonly nonces: ReturnType<typeof createNonces>
  readonly tokens: ReturnType<typeof createTokens>
}

const common = { tag: 'pairing', lanes: 'open', bodyLimit: 4096, invalidBody: 400 } as const
const badKey = 'device_key is no P-256 key as SPKI DER in base64'

const knockRefusals: Record<KnockRefusal['refused'], [number, string] | undefined> = {
  // Listed all the same: a PIN that is bound to it pairs it.
  'outside-lan': undefined,
  stopping: [503, 'nothing on this host serves pairing now; try again later'],
  full: [429, 'too many devices wait for this host’s operator; try again later'],
  pace: [429, 'too many new devices knock from this address; wait a moment'],
}

const pairRefusals: Readonly<Record<string, [number, string]>> = {
  'bad-key': [400, badKey],
  'bad-share': [400, 'share is no element that can be used'],
  pace: [429, 'that was too soon after the last attempt; wait a moment'],
  'no-window': [401, 'the PIN window of this host is not open: arm it there, then try again'],
  'other-device': [401, 'the PIN window of this host is open for another device'],
  'outside-lan': [
    401,
    'from outside its network this host pairs only a device that the window was armed for',
  ],
  'wrong-pin': [401, 'the PIN is wrong, and spent: arm a new one on the host'],
  none: [401, 'no exchange is under way from this address: begin with step share'],
  'host-error': [500, 'the host could not store this device; see its log'],
}
const throwRefusal = (reason: string): never => {
  const [status, message] = pairRefusals[reason]!
  throw new HttpError(status, message)
}

export function routes(parts: RouteParts): Route[] {
  const { hostFingerprint, roster, queue, exchange, nonces, tokens } = parts
  return [
    route({
      ...common,
      method: 'POST',
      path: '/auth/device/challenge',
      id: 'postDeviceChallenge',
      summary: 'Get a nonce to sign for a token',
      replies: { 200: Challenge },
      handler: ({ caller }) => ({ nonce: nonces.issue(caller.address), expires_in: nonceSeconds }),
    }),
    route({
      ...common,
      method: 'POST',
      path: '/auth/device/token',
      id: 'postDeviceToken',
      summary: 'Get a token for a paired device key',
      description:
        'The signature is over svc-device-auth-v1, a zero byte, the 32 bytes of the host fingerprint and the 32 bytes of the nonce.',
      body: TokenRequest,
      replies: { 200: TokenAnswer },
      errors: { 401: 'nonce, signature or pairing is not good; it is not said which' },
      handler({ body: { device_key, nonce, signature } }) {
        const isFresh = nonces.spend(nonce)
        const key = readDeviceKey(device_key)
        const isProven = key?.hasSigned(tokenMessage(hostFingerprint, nonce), signature)
        const device = key && roster.find(key.fingerprint)
        if (!isFresh || !key || !isProven || !device || device.isGuest)
          throw new HttpError(401, 'this device key cannot have a token')
        const expires_at = Math.floor(Date.now() / 1000) + tokenSeconds
        return { token: tokens.issue(key.fingerprint), expires_at, fingerprint: key.fingerprint }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/auth/device/knock',
      id: 'postDeviceKnock',
      summary: 'Ask the operator to pair a device key',
      description:
        'The key shows in GET /native/pending. Ask for a token from time to time: 401 until it is approved.',
      body: KnockRequest,
      replies: { 202: null },
      errors: {
        400: 'the key or its signature is not good',
        429: 'too many devices knock',
        503: 'nothing serves pairing now',
      },
      handler({ body: { device_key, name, signature }, caller }) {
        const key = readDeviceKey(device_key)
        if (!key) throw new HttpError(400, badKey)
        if (!key.hasSigned(knockMessage(hostFingerprint, name), signature))
          throw new HttpError(400, 'signature does not prove device_key for this host and name')
        const knock = queue.knock({ fingerprint: key.fingerprint, name, address: caller.address })
        if ('refused' in knock) {
          const refusal = knockRefusals[knock.refused]
          if (refusal) throw new HttpError(...refusal)
        } else knock.leave()
        return undefined
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/auth/device/pair',
      id: 'postDevicePair',
      summary: 'Pair a device key by PIN',
      description:
        'Two requests: the share of CPace (PROTOCOL.md of the native plane, section 2.2) with SHA-256 over svc-device-pair-v1, a zero byte, host and key fingerprint as session id; then the tag.',
      body: PairRequest,
      replies: { 200: PairAnswer },
      errors: {
        400: 'the key or the share is not good',
        401: 'no window, another device, or a wrong PIN; the PIN is spent',
        429: 'too soon after the last attempt',
        500: 'the device could not be stored',
      },
      async handler({ body, caller: { address } }) {
        const outcome =
          body.step === 'share'
            ? exchange.share(body.device_key, body.name, body.share, address)
            : await exchange.confirm(body.confirm, address)
        return 'refused' in outcome ? throwRefusal(outcome.refused) : outcome
      },
    }),
  ]
}
