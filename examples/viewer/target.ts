// Reads what stands on the command line: a host with a port, a mode.
import { defaultPort, type Mode, StreamError } from 'svc-host/stream'

export interface Target {
  readonly host: string
  readonly port: number
}

const wrong = (message: string) => new StreamError('bad-argument', message)

/** `host`, `host:port`, `[ipv6]`, `[ipv6]:port`, or a bare IPv6 address. */
export const parseTarget = (text: string): Target => {
  const bracketed = /^\[([0-9A-Fa-f:.%a-z]+)\](?::(\d+))?$/.exec(text)
  const plain = /^([^:[\]\s]+)(?::(\d+))?$/.exec(text)
  const bare = /^[0-9A-Fa-f:.]+$/.test(text) && text.split(':').length > 2 ? [text, text] : undefined
  const match = bracketed ?? plain ?? bare
  const port = match?.[2] === undefined ? defaultPort : Number(match[2])
  if (!match?.[1] || port < 1 || port > 65535) {
    throw wrong(`"${text}" is no host: write host, host:port, or [IPv6 address]:port`)
  }
  return { host: match[1], port }
}

/** `WIDTHxHEIGHT@HZ`, in the ranges of PROTOCOL.md, section 2.3. */
export const parseMode = (text: string): Mode => {
  const match = /^(\d{1,5})x(\d{1,5})@(\d{1,3})$/.exec(text)
  if (!match) throw wrong(`"${text}" is no mode: write it as 1280x720@60`)
  const [width = 0, height = 0, hz = 0] = match.slice(1).map(Number)
  const isEven = width % 2 === 0 && height % 2 === 0
  if (!isEven || width < 64 || width > 7680 || height < 64 || height > 4320 || hz < 1 || hz > 240) {
    throw wrong(`${text} is out of range: 64 to 7680 by 64 to 4320, even numbers, at 1 to 240 Hz`)
  }
  return { width, height, hz }
}

/** A whole number within a range, for commander's option parsers. */
export const parseNumber =
  (what: string, least: number, most: number) =>
  (text: string): number => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isFinite(value) || value < least || value > most) {
      throw wrong(`${what} must be a number from ${least} to ${most}, but is "${text}"`)
    }
    return value
  }
