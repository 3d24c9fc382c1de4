// The public face of device keys: whose a token is.
import { token } from 'svc-host/sdk'

export interface DeviceTokens {
  /** Fingerprint of the key that a live token was given to; whether it is still paired is another question. */
  fingerprintOf(token: string): string | undefined
}
export const DeviceTokens = token<DeviceTokens>('device.tokens', '1.0.0')
