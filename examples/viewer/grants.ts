// What a host lets this device do, in words.
import { grantBits } from 'svc-host/stream'

/** Bits of keys, pointer and pads. */
export const inputGrants = grantBits.keyboard | grantBits.pointer | grantBits.gamepad

/** Which of the ways of input these bits of section 2.3 of PROTOCOL.md allow. */
export const grantsText = (grants: number): string => {
  const inputs = (['keyboard', 'pointer', 'gamepad'] as const).filter(name => grants & grantBits[name])
  return inputs.length === 0 ? 'may watch, and do nothing else' : `may use: ${inputs.join(', ')}`
}
