// Modes as text and as equals.
import type { Mode } from 'svc-host/api/media'

/** `WIDTHxHEIGHT@HZ`. */
export const modeText = ({ width, height, hz }: Mode): string => `${width}x${height}@${hz}`

export const isSameMode = (a: Mode, b: Mode): boolean =>
  a.width === b.width && a.height === b.height && a.hz === b.hz
