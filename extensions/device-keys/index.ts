// Device keys: browsers, which have no certificate to show, pair a key of their own and get tokens for it.
import { PairingQueue, PairingRoster, PairingWindow } from 'svc-host/api/pairing'
import { CertificateIdentity, defineExtension } from 'svc-host/sdk'
import { DeviceTokens } from './api.ts'
import { createExchange } from './exchange.ts'
import { routes } from './routes.ts'
import { createNonces, createTokens } from './spent.ts'

const nowMs = (): number => performance.now()

export default defineExtension({
  deps: { identity: CertificateIdentity, queue: PairingQueue, roster: PairingRoster, window: PairingWindow },
  async setup(ctx, { identity, queue, roster, window }) {
    const hostFingerprint = identity.fingerprint
    const exchange = createExchange(window, hostFingerprint)
    await ctx.effect('PIN exchange under way', () => () => exchange.close())
    const tokens = createTokens(nowMs)
    ctx.provide(DeviceTokens, { fingerprintOf: tokens.fingerprintOf })
    ctx.route(...routes({ hostFingerprint, roster, queue, exchange, nonces: createNonces(nowMs), tokens }))
  },
})
