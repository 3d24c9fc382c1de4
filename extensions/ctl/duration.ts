// Spans of time, as people write and read them.
import { InvalidArgumentError } from 'commander'

const unitSecs: Record<string, number> = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 }

/** Reads `90`, `90s`, `15m`, `2h` or `7d` as seconds. */
export function parseSecs(text: string): number {
  const [, digits, unit] = /^(\d{1,9})([smhd]?)$/.exec(text.trim()) ?? []
  if (digits === undefined)
    throw new InvalidArgumentError('Write seconds, or a number with s, m, h or d: 90, 15m, 7d.')
  return Number(digits) * unitSecs[unit!]!
}

const two = (value: number): string => String(value).padStart(2, '0')

/** `0:07`, `12:04`, `3:00:00`. */
export function clock(secs: number): string {
  const whole = Math.max(0, Math.floor(secs))
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`
}

/** `2026-11-21 14:05` in this machine's time zone. */
export function date(unixSecs: number): string {
  const at = new Date(unixSecs * 1000)
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`
}

/** `1 device`, `2 devices`. */
export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`
