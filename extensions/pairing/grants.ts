// What a device may do: the mask, its levels, and what a stored mask means (wire-decisions, "Grants").
import type { AccessLevel } from './schema.ts'

/** All bits that exist; others are refused, never cleared silently. */
export const allGrants = 0x7f
/** Full control from before the bit for host power. */
const fullBeforePower = 0x3f

export const isGrantMask = (mask: number): boolean => Number.isInteger(mask) && mask >= 0 && mask <= allGrants

/** The mask that a stored one stands for: null and the old full mask are full. */
export const effectiveGrants = (stored: number | null): number =>
  stored === null || stored === fullBeforePower ? allGrants : stored

export const accessLevel = (stored: number | null): AccessLevel => {
  const mask = effectiveGrants(stored)
  if (mask === allGrants) return 'full'
  if (mask === 0x01) return 'controller'
  return mask === 0 ? 'view' : 'custom'
}
