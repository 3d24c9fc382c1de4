// Shapes of the roster on disk and on the wire (wire-decisions, "Native client record", "Pairing status", "Grants").
import { z } from 'zod'

/** SHA-256 of a certificate's DER, as people and files write it; stored in lower case. */
export const Fingerprint = z
  .string()
  .trim()
  .toLowerCase()
  .regex(/^[0-9a-f]{64}$/, 'a fingerprint is 64 hex characters')

/** Longest time that an access may be given for, about 136 years in seconds. */
const longestSecs = 0xffff_ffff

const UnixSeconds = z.int().nonnegative()

/** A device as the roster keeps it. */
export const StoredClient = z.object({
  name: z.string(),
  fingerprint: Fingerprint,
  /** Bits of "Grants"; null: from before grants, read as full. */
  grants: z.int().min(0).max(0x7f).nullable().default(null),
  /** End of access on the host's clock; null: permanent. */
  expires_unix: UnixSeconds.nullable().default(null),
  /** When an access was last chosen; shown only. */
  granted_unix: UnixSeconds.nullable().default(null),
})
export type StoredClient = z.output<typeof StoredClient>

/** `<config>/native-paired.json`. A row that does not parse costs that row, never its neighbours. */
export const RosterFile = z.object({
  version: z.int().default(1),
  clients: z
    .array(StoredClient.nullable().catch(null))
    .transform(rows => rows.filter(row => row !== null))
    .default([]),
})
export type RosterFile = z.output<typeof RosterFile>

export const AccessLevel = z.enum(['full', 'controller', 'view', 'custom'])
export type AccessLevel = z.output<typeof AccessLevel>

export const NativeClient = StoredClient.extend({ access_level: AccessLevel }).meta({ id: 'NativeClient' })
export type NativeClient = z.output<typeof NativeClient>

export const PairingStatus = z
  .object({
    enabled: z.boolean(),
    armed: z.boolean(),
    pin: z.string().nullable(),
    expires_in_secs: z.int().nullable(),
    paired_clients: z.int(),
  })
  .meta({ id: 'NativePairingStatus' })

/** One row of `GET /native/pending`. */
export const PendingDevice = z
  .object({
    id: z.int().describe('counts up in each process'),
    name: z.string().describe('as the device calls itself, without what cannot be seen'),
    fingerprint: Fingerprint,
    age_secs: z.int().describe('since its last knock'),
    source: z.enum(['lan', 'wan']).describe('only a device of this network can be approved'),
    grants: z.int().nullable().describe('stored mask, where it was paired before'),
    expires_unix: UnixSeconds.nullable().describe('stored end of access'),
    granted_unix: UnixSeconds.nullable().describe('when an access was last chosen for it'),
    access_level: AccessLevel.nullable().describe('of the stored mask; null: it was never paired'),
  })
  .meta({ id: 'PendingDevice' })
export type PendingDevice = z.output<typeof PendingDevice>

const ExpiresInSecs = z.int().min(0).max(longestSecs)

/** `null` and absent mean the same. Range checks of `fingerprint` and `grants` answer 400, so they are made later. */
export const ArmRequest = z.object({
  fingerprint: z.string().nullish(),
  ttl_secs: z.int().nullish(),
  grants: z.int().nullish(),
  expires_in_secs: ExpiresInSecs.nullish(),
})

export const AccessEdit = z.object({
  name: z.string().nullish(),
  grants: z.int().nullish(),
  expires_in_secs: ExpiresInSecs.nullish(),
  clear_expiry: z.boolean().nullish(),
})

/** What is left out stays as it is stored, or as the device calls itself. */
export const ApproveRequest = z.object({
  name: z.string().nullish(),
  grants: z.int().nullish(),
  expires_in_secs: ExpiresInSecs.nullish(),
})
