// Pairing: the PIN window, the native roster and the device lane's registry.
import { statusCollect, summaryCollect } from 'svc-host/api/status'
import { type Context, DeviceRegistry, defineExtension } from 'svc-host/sdk'
import {
  accessChanged,
  accessExpired,
  accessGranted,
  PairingRoster,
  PairingWindow,
  pairingCompleted,
} from './api.ts'
import { effectiveGrants } from './grants.ts'
import { createRoster, type RosterNews } from './roster.ts'
import { routes } from './routes.ts'
import { RosterFile, type StoredClient } from './schema.ts'
import { createPairing } from './service.ts'

const news = (ctx: Context): RosterNews => {
  const device = ({ name, fingerprint }: StoredClient) => ({ name, fingerprint, plane: 'native' as const })
  const access = (client: StoredClient) => ({
    device: device(client),
    grants: effectiveGrants(client.grants),
    ...(client.expires_unix === null ? {} : { expires_unix: client.expires_unix }),
  })
  return {
    completed: client => ctx.emit(pairingCompleted, { device: device(client) }),
    granted: client => ctx.emit(accessGranted, access(client)),
    changed: client => ctx.emit(accessChanged, access(client)),
    expired: client => ctx.emit(accessExpired, { device: device(client) }),
  }
}

export default defineExtension({
  async setup(ctx) {
    const roster = createRoster(await ctx.document('native-paired.json', RosterFile), news(ctx))
    const pairing = createPairing(roster, error => {
      ctx.log.error('a device proved the PIN but could not be stored', { err: error })
    })
    await ctx.effect('watch over ends of access', () => {
      const timer = setInterval(() => roster.expire(), 1000).unref()
      return () => clearInterval(timer)
    })
    ctx.provide(DeviceRegistry, {
      byFingerprint: async fingerprint => roster.find(fingerprint),
      byToken: async () => undefined,
    })
    ctx.provide(PairingRoster, roster)
    ctx.provide(PairingWindow, pairing)
    ctx.route(...routes(pairing, roster))
    ctx.tap(statusCollect, record => ({ ...record, native_paired_clients: roster.list().length }))
    ctx.tap(summaryCollect, record => ({ ...record, native_paired_clients: roster.list().length }))
  },
})
