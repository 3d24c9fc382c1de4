// Who is on the device lane of the API: paired devices, by their certificate or by a token of their browser key.
import { DeviceTokens } from 'svc-host/api/device-keys'
import { type Context, DeviceRegistry } from 'svc-host/sdk'
import type { Roster } from './roster.ts'

/** Guests of an open host are not on it. */
export function provideDeviceLane(ctx: Context, roster: Pick<Roster, 'find'>): void {
  let tokens: DeviceTokens | undefined
  ctx.using(DeviceTokens, (given, sub) =>
    sub.effect('device tokens', () => {
      tokens = given
      return () => {
        tokens = undefined
      }
    }),
  )
  ctx.provide(DeviceRegistry, {
    byFingerprint: async fingerprint => roster.find(fingerprint),
    async byToken(token) {
      const fingerprint = tokens?.fingerprintOf(token)
      return fingerprint === undefined ? undefined : roster.find(fingerprint)
    },
  })
}
