// mDNS: tells clients in the local network that a host is here, where its planes listen and whose certificate to expect.
import { NativePlane } from 'svc-host/api/native-plane'
import { PairingRoster } from 'svc-host/api/pairing'
import { HostNames } from 'svc-host/api/status'
import { CertificateIdentity, defineExtension, HostInfo } from 'svc-host/sdk'
import { z } from 'zod'
import { makeAdvert } from './advert.ts'
import { advertise } from './responder.ts'

export default defineExtension({
  config: z.object({ enabled: z.boolean().default(true) }),
  deps: { host: HostInfo, identity: CertificateIdentity, names: HostNames },
  setup(ctx, { host, identity, names }) {
    if (!ctx.config.enabled) return
    let isOpen = false
    ctx.using(PairingRoster, roster => {
      isOpen = roster.isOpen
    })
    ctx.using(NativePlane, (plane, sub) => {
      const advert = makeAdvert({
        hostName: names.name,
        hostId: names.id,
        fingerprint: identity.fingerprint,
        nativePort: plane.port,
        mgmtPort: host.mgmtPort,
        isPairingRequired: !isOpen,
      })
      return sub.effect('mDNS advert', () => advertise(advert, ctx.log))
    })
  },
})
