// Bitrates: what a client gets when it names none, and the bounds of what it may name.

const leastKbps = 500
const mostKbps = 300_000
/** Bits per pixel that look good on a moving desktop. */
const bitsPerPixel = 0.1

export const clampBitrate = (kbps: number): number =>
  Math.round(Math.min(mostKbps, Math.max(leastKbps, Number.isFinite(kbps) ? kbps : leastKbps)))

export const defaultBitrate = (mode: { width: number; height: number; hz: number }): number =>
  clampBitrate((mode.width * mode.height * mode.hz * bitsPerPixel) / 1000)
