// The native plane: TLS control connections and sealed media on one port number.
import { hostname } from 'node:os'
import { DisplayPool } from 'svc-host/api/displays'
import { MediaEngine } from 'svc-host/api/media'
import { PairingQueue, PairingRoster, PairingWindow } from 'svc-host/api/pairing'
import { SessionRegistry } from 'svc-host/api/sessions'
import { HostNames, hostCollect } from 'svc-host/api/status'
import { CertificateIdentity, defineExtension, HostInfo, HostStopping } from 'svc-host/sdk'
import { z } from 'zod'
import { NativePlane } from './api.ts'
import { type NativeService, openNativeService } from './service.ts'
import { followSound } from './sound.ts'

export default defineExtension({
  config: z.object({
    port: z.int().min(0).max(65_535).default(9777),
    idleTimeoutMs: z.int().min(1000).max(120_000).default(8000),
  }),
  deps: {
    engine: MediaEngine,
    host: HostInfo,
    identity: CertificateIdentity,
    pairing: PairingWindow,
    pool: DisplayPool,
    queue: PairingQueue,
    registry: SessionRegistry,
    roster: PairingRoster,
  },
  async setup(ctx, { host, ...services }) {
    // Without the extension that names this host it is known by its certificate.
    const unnamed = { name: hostname(), id: services.identity.fingerprint.slice(0, 16).toUpperCase() }
    let names: HostNames = unnamed
    ctx.using(HostNames, (given, sub) => {
      names = given
      sub.signal.addEventListener('abort', () => {
        names = unnamed
      })
    })
    let native: NativeService | undefined
    await ctx.effect('native sockets and sessions', async () => {
      native = await openNativeService({
        ...services,
        ...ctx.config,
        sounds: followSound(ctx),
        host: () => ({ ...names, version: host.version }),
        log: ctx.log,
      })
      return native.close
    })
    const bound = native!.port
    ctx.provide(NativePlane, { port: bound })
    // Displays go down beside this plane; clients must hear of the stop and not of a display that was lost.
    ctx.on(HostStopping, () => native?.endSessions())
    ctx.tap(hostCollect, facts => ({ ...facts, ports: { ...facts.ports, native: bound } }))
    ctx.log.info(`native plane on port ${bound}, TCP and UDP`)
  },
})
