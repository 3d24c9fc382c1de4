// Identity slots: a small number for each client, the same at every connect, that layouts are keyed by.
import type { Mode } from 'svc-host/api/media'
import { modeText } from './mode.ts'
import type { DisplayPolicy } from './policy.ts'

/** Slots are 1..15. */
const slotCount = 15

/** Gives slots out; where all are taken the one that was asked for longest ago is given anew. */
export function createIdentitySlots(): {
  slotOf(fingerprint: string | null, mode: Mode, identity: DisplayPolicy['identity']): number | null
} {
  // In the order of use, oldest first.
  const slots = new Map<string, number>()
  return {
    slotOf(fingerprint, mode, identity) {
      if (fingerprint === null || identity === 'shared') return null
      const key = identity === 'per-client' ? fingerprint : `${fingerprint} ${modeText(mode)}`
      let slot = slots.get(key)
      if (slot === undefined && slots.size < slotCount) slot = slots.size + 1
      if (slot === undefined) {
        const [oldest, freed] = [...slots][0]!
        slots.delete(oldest)
        slot = freed
      }
      slots.delete(key)
      slots.set(key, slot)
      return slot
    },
  }
}
