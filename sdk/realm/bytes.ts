// Bytes as text, both ways: base64 and UTF-8, which the language itself does not have.

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const sextetOf = new Uint8Array(128).fill(64)
for (let at = 0; at < 64; at++) sextetOf[alphabet.charCodeAt(at)] = at

const digits = Uint8Array.from(alphabet, digit => digit.charCodeAt(0))

/** A string of these units. */
const textOf = (units: Uint8Array | Uint16Array): string => {
  let text = ''
  for (let at = 0; at < units.length; at += 4096)
    text += String.fromCharCode.apply(null, units.subarray(at, at + 4096) as never)
  return text
}

export function toBase64(bytes: Uint8Array): string {
  const out = new Uint8Array(Math.ceil(bytes.length / 3) * 4)
  for (let at = 0, to = 0; at < bytes.length; at += 3, to += 4) {
    const three = (bytes[at]! << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
    out[to] = digits[three >> 18]!
    out[to + 1] = digits[(three >> 12) & 63]!
    out[to + 2] = digits[(three >> 6) & 63]!
    out[to + 3] = digits[three & 63]!
  }
  // What the last three lack is padding.
  out.fill(61, out.length - ((3 - (bytes.length % 3)) % 3))
  return textOf(out)
}

/** Throws on what is no base64; padding may be left out, blanks are skipped. */
export function fromBase64(given: string): Uint8Array {
  let text = given.replace(/[\t\n\f\r ]+/g, '')
  if (text.length % 4 === 0) text = text.replace(/={1,2}$/, '')
  if (text.length % 4 === 1) throw new Error('it is not base64: its length is wrong')
  const out = new Uint8Array(Math.floor((text.length * 3) / 4))
  for (let at = 0, to = 0, held = 0, bits = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const value = code < 128 ? sextetOf[code]! : 64
    if (value === 64) throw new Error('it is not base64: it has a character of no meaning')
    held = ((held << 6) | value) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    out[to] = held >> bits
    to += 1
  }
  return out
}

export function encodeUtf8(text: string): Uint8Array {
  const out = new Uint8Array(text.length * 3)
  let to = 0
  for (let at = 0; at < text.length; at++) {
    let code = text.codePointAt(at)!
    if (code > 0xffff) at += 1
    else if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd
    const more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3
    out[to] = more === 0 ? code : ((0xff << (7 - more)) & 0xff) | (code >> (6 * more))
    to += 1
    for (let left = more - 1; left >= 0; left--) {
      out[to] = 0x80 | ((code >> (6 * left)) & 63)
      to += 1
    }
  }
  return out.slice(0, to)
}

/** Bytes that are no UTF-8 become U+FFFD as the web platform does it, or throw. */
export function decodeUtf8(bytes: Uint8Array, isFatal = false): string {
  const units = new Uint16Array(bytes.length)
  let to = 0
  const bad = (): void => {
    if (isFatal) throw new TypeError('the bytes are no UTF-8')
    units[to] = 0xfffd
    to += 1
  }
  let [code, needed, low, high] = [0, 0, 0x80, 0xbf]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (needed > 0) {
      if (byte < low || byte > high) {
        bad()
        ;[needed, low, high] = [0, 0x80, 0xbf]
        at -= 1
        continue
      }
      ;[low, high] = [0x80, 0xbf]
      code = (code << 6) | (byte & 63)
      needed -= 1
      if (needed > 0) continue
    } else if (byte < 0x80) code = byte
    else if (byte >= 0xc2 && byte <= 0xf4) {
      needed = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
      code = byte & (0x3f >> needed)
      if (byte === 0xe0) low = 0xa0
      else if (byte === 0xed) high = 0x9f
      else if (byte === 0xf0) low = 0x90
      else if (byte === 0xf4) high = 0x8f
      continue
    } else {
      bad()
      continue
    }
    if (code > 0xffff) {
      units[to] = 0xd7c0 + (code >> 10)
      to += 1
      code = 0xdc00 | (code & 0x3ff)
    }
    units[to] = code
    to += 1
  }
  if (needed > 0) bad()
  return textOf(units.subarray(0, to))
}
