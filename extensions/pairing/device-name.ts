// Names that devices give themselves, made fit for people, logs and terminals (wire-decisions, "Limits").

/** Longest name, in characters as people count code points. */
const longest = 64

/** Control, bidirectional and other format characters, and letters that show nothing. */
const unseen = /[\p{C}\p{Default_Ignorable_Code_Point}\u2800]/gu
const blanks = /[\s\p{Z}]+/gu

/** Removes what cannot be seen, joins blanks and cuts to 64 characters; empty when nothing is left. */
export const sanitizeName = (raw: string): string => {
  const clean = raw.replace(blanks, ' ').replace(unseen, '').replace(blanks, ' ').trim()
  return Array.from(clean).slice(0, longest).join('').trim()
}

/** The name to list a device under: its own, or one made of its fingerprint. */
export const deviceName = (raw: string, fingerprint: string): string =>
  sanitizeName(raw) || `device ${fingerprint.slice(0, 8)}`
