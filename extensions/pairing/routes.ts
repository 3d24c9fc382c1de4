// The native pairing routes: PIN window, devices that knock, and the roster (wire-decisions, "Pairing status").
import { HttpError, type Route, reply, route } from 'svc-host/sdk'
import { z } from 'zod'
import { accessLevel, isGrantMask } from './grants.ts'
import type { Queue } from './queue.ts'
import type { Roster } from './roster.ts'
import {
  AccessEdit,
  ApproveRequest,
  ArmRequest,
  Fingerprint,
  NativeClient,
  PairingStatus,
  PendingDevice,
  type StoredClient,
} from './schema.ts'
import type { Pairing } from './service.ts'
import type { Serving } from './serving.ts'

const adminOnly = { plugin: false, device: false } as const
const path = z.object({
  fingerprint: z.string().describe('SHA-256 of the device certificate, 64 hex characters'),
})

const pendingPath = z.object({
  id: z
    .string()
    .regex(/^\d{1,15}$/, 'an id is a decimal number')
    .describe('as listed by `GET /native/pending`, in decimal'),
})

const record = (client: StoredClient): NativeClient => ({
  ...client,
  access_level: accessLevel(client.grants),
})

const bound = (raw: string | null | undefined): string | null => {
  if (!raw?.trim()) return null
  const parsed = Fingerprint.safeParse(raw)
  if (!parsed.success) throw new HttpError(400, 'fingerprint must be 64 hex characters')
  return parsed.data
}

const mask = (grants: number | null | undefined): number | null => {
  if (grants === null || grants === undefined) return null
  if (!isGrantMask(grants)) throw new HttpError(400, 'grants has unknown bits')
  return grants
}

const stored = async <T>(write: Promise<T>): Promise<T> => {
  try {
    return await write
  } catch (error) {
    throw new HttpError(500, 'the list of paired devices could not be written; nothing has changed', {
      cause: error,
    })
  }
}

interface RouteParts {
  readonly pairing: Pairing
  readonly serving: Serving
  readonly queue: Queue
  readonly roster: Roster
}

export const routes = ({ pairing, serving, queue, roster }: RouteParts): Route[] => {
  const status = () => ({ ...pairing.status(), paired_clients: roster.list().length })
  const noPlane = 'the native plane is not running'

  return [
    route({
      method: 'GET',
      path: '/native/pair',
      id: 'getNativePairing',
      tag: 'native',
      summary: 'Status of the PIN window',
      lanes: adminOnly,
      replies: { 200: PairingStatus },
      handler: status,
    }),
    route({
      method: 'DELETE',
      path: '/native/pair',
      id: 'disarmNativePairing',
      tag: 'native',
      summary: 'Close the PIN window; an exchange under way pairs nothing',
      lanes: adminOnly,
      replies: { 204: null },
      errors: { 503: noPlane },
      handler: () => {
        pairing.disarm()
        return reply(204)
      },
    }),
    route({
      method: 'POST',
      path: '/native/pair/arm',
      id: 'armNativePairing',
      tag: 'native',
      summary: 'Open the PIN window with a new PIN; replaces a window that is open',
      lanes: adminOnly,
      body: ArmRequest,
      emptyBody: true,
      replies: { 200: PairingStatus },
      errors: { 400: 'fingerprint or grants out of range; no window was opened', 503: noPlane },
      handler: ({ body }) => {
        const access = { grants: mask(body.grants), expiresInSecs: body.expires_in_secs ?? null }
        pairing.arm({ fingerprint: bound(body.fingerprint), ttlSecs: body.ttl_secs ?? 120, access })
        return status()
      },
    }),
    route({
      method: 'GET',
      path: '/native/pending',
      id: 'listPendingDevices',
      tag: 'native',
      summary: 'Devices that knock: unpaired ones that want to stream, and paired ones whose access is over',
      lanes: adminOnly,
      replies: { 200: z.array(PendingDevice) },
      handler: () => [...queue.list()],
    }),
    route({
      method: 'POST',
      path: '/native/pending/{id}/approve',
      id: 'approvePendingDevice',
      tag: 'native',
      summary: 'Pair a device that knocks; where it still waits, it goes on into its stream',
      lanes: adminOnly,
      params: pendingPath,
      body: ApproveRequest,
      emptyBody: true,
      replies: { 200: NativeClient },
      errors: {
        400: 'unknown bits in grants; nothing has changed',
        404: 'no such device',
        409: 'the device knocked from outside this network: arm a PIN for its fingerprint instead',
        500: 'the list of paired devices could not be written; the device goes on waiting',
        503: noPlane,
      },
      handler: async ({ params, body }) => {
        serving.require()
        const access = { grants: mask(body.grants), expiresInSecs: body.expires_in_secs ?? null }
        const outcome = await stored(
          queue.approve(Number(params.id), { name: body.name ?? undefined, access }),
        )
        if (outcome === 'unknown') throw new HttpError(404, 'pending device not found')
        if (outcome === 'outside-lan') {
          throw new HttpError(409, 'approve is not possible for this device, arm a PIN for its fingerprint')
        }
        return record(outcome)
      },
    }),
    route({
      method: 'POST',
      path: '/native/pending/{id}/deny',
      id: 'denyPendingDevice',
      tag: 'native',
      summary: 'Send a device that knocks away; it may knock again',
      lanes: adminOnly,
      params: pendingPath,
      replies: { 204: null },
      errors: { 404: 'no such device', 503: noPlane },
      handler: async ({ params }) => {
        serving.require()
        if (!(await queue.deny(Number(params.id)))) throw new HttpError(404, 'pending device not found')
        return reply(204)
      },
    }),
    route({
      method: 'GET',
      path: '/native/clients',
      id: 'listNativeClients',
      tag: 'native',
      summary: 'Devices paired on the native plane',
      lanes: adminOnly,
      replies: { 200: z.array(NativeClient) },
      handler: () => roster.list().map(record),
    }),
    route({
      method: 'DELETE',
      path: '/native/clients',
      id: 'unpairAllNativeClients',
      tag: 'native',
      summary: 'Unpair all devices; their sessions end',
      lanes: adminOnly,
      replies: { 200: z.object({ unpaired: z.int() }).meta({ id: 'Unpaired' }) },
      errors: { 500: 'the list could not be written', 503: noPlane },
      handler: async () => {
        serving.require()
        return { unpaired: await stored(roster.unpair('all')) }
      },
    }),
    route({
      method: 'DELETE',
      path: '/native/clients/{fingerprint}',
      id: 'unpairNativeClient',
      tag: 'native',
      summary: 'Unpair a device; its session ends, its access and name go with it',
      lanes: adminOnly,
      params: path,
      replies: { 204: null },
      errors: { 404: 'no such device', 500: 'the list could not be written', 503: noPlane },
      handler: async ({ params }) => {
        serving.require()
        const gone = await stored(roster.unpair(params.fingerprint.toLowerCase()))
        if (gone === 0) throw new HttpError(404, 'device not found')
        return reply(204)
      },
    }),
    route({
      method: 'PATCH',
      path: '/native/clients/{fingerprint}',
      id: 'updateNativeClientAccess',
      tag: 'native',
      summary: 'Change what a device may do, until when, or its name; acts at once, also on a live session',
      lanes: adminOnly,
      params: path,
      body: AccessEdit,
      replies: { 200: NativeClient },
      errors: {
        400: 'unknown bits in grants, or expires_in_secs together with clear_expiry',
        404: 'no such device',
        500: 'the list could not be written',
        503: noPlane,
      },
      handler: async ({ params, body }) => {
        const expires = body.expires_in_secs ?? undefined
        if (expires !== undefined && body.clear_expiry) {
          throw new HttpError(400, 'expires_in_secs and clear_expiry exclude each other')
        }
        const edit = {
          name: body.name ?? undefined,
          grants: mask(body.grants) ?? undefined,
          expiresInSecs: body.clear_expiry ? null : expires,
        }
        serving.require()
        const client = await stored(roster.edit(params.fingerprint.toLowerCase(), edit))
        if (!client) throw new HttpError(404, 'device not found')
        return record(client)
      },
    }),
  ]
}
