// A host that is open: devices that nobody has paired may stream, as guests; the roster and the device lane know them not.
import type { PairedDevice, PairingRoster } from './api.ts'
import { deviceName } from './device-name.ts'

/** All but host actions, which stay with devices that somebody has let in. */
const guestGrants = 0x3f

/** A device whose access is over was decided about, and stays out. */
export const withGuests = (roster: PairingRoster): PairingRoster => ({
  ...roster,
  isOpen: true,
  find: (fingerprint): PairedDevice | undefined => {
    const known = roster.find(fingerprint)
    if (known || roster.isExpired(fingerprint)) return known
    const lower = fingerprint.toLowerCase()
    return {
      name: deviceName('', lower),
      fingerprint: lower,
      grants: guestGrants,
      level: 'full',
      isGuest: true,
    }
  },
})
