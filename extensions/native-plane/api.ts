// The native plane's public face: where it listens.
import { token } from 'svc-host/sdk'

export interface NativePlane {
  /** TCP and UDP port, the same number for both. */
  readonly port: number
}
export const NativePlane = token<NativePlane>('native.plane', '1.0.0')
