// What browsers say to prove or pair their key, and what they are told (wire-decisions, "Device exchange").
import { z } from 'zod'

const base64 = z.string().max(512)
const deviceKey = base64.describe('base64 of the SPKI DER of a P-256 key; its SHA-256 is the fingerprint')
const signature = base64.describe('base64 of an ASN.1 DER signature, ECDSA with SHA-256')
const name = z.string().max(1024).describe('how the device calls itself')

export const Challenge = z
  .object({
    nonce: z.string().describe('64 hex characters, good for one try'),
    expires_in: z.int().describe('seconds'),
  })
  .meta({ id: 'DeviceChallenge' })

export const TokenRequest = z
  .object({ device_key: deviceKey, nonce: z.string().max(128), signature })
  .meta({ id: 'DeviceTokenRequest' })
export const TokenAnswer = z
  .object({
    token: z.string().describe('64 hex characters, sent as a bearer'),
    expires_at: z.int().describe('Unix seconds'),
    fingerprint: z.string().describe('of the device key'),
  })
  .meta({ id: 'DeviceToken' })

export const KnockRequest = z
  .object({
    device_key: deviceKey,
    name,
    signature: signature.describe(
      'over svc-device-knock-v1, a zero byte, the 32 bytes of the host fingerprint and the name in UTF-8',
    ),
  })
  .meta({ id: 'DeviceKnock' })

export const PairRequest = z
  .discriminatedUnion('step', [
    z.object({
      step: z.literal('share'),
      device_key: deviceKey,
      name,
      share: base64.describe('base64 of the 32 bytes of the first share of CPace'),
    }),
    z.object({ step: z.literal('confirm'), confirm: base64.describe('base64 of the 32 bytes of the tag') }),
  ])
  .meta({ id: 'DevicePairRequest' })
export const PairAnswer = z
  .object({
    share: base64.optional().describe('after step share: the host’s share'),
    confirm: base64.optional().describe('after step confirm: the host’s tag; the key is paired'),
    fingerprint: z.string().describe('of the device key'),
  })
  .meta({ id: 'DevicePairAnswer' })
