// The .Xauthority format: who may open a display. Written here so that no cookie is ever an argument of a program.

/** Length of a cookie in bytes. */
export const cookieBytes = 16

/** Matches every address; an entry without a display number matches every display. */
const familyWild = 0xffff

const counted = (bytes: Buffer): Buffer => {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/**
 * A file with one MIT-MAGIC-COOKIE-1 entry for any display of any address. The number is left out because the X
 * server reads the file before it has chosen one, and nothing else is ever in the file.
 */
export function encodeXauthority(cookie: Uint8Array): Buffer {
  if (cookie.length !== cookieBytes)
    throw new RangeError(`a cookie has ${cookieBytes} bytes, not ${cookie.length}`)
  const family = Buffer.alloc(2)
  family.writeUInt16BE(familyWild)
  return Buffer.concat([
    family,
    counted(Buffer.alloc(0)),
    counted(Buffer.alloc(0)),
    counted(Buffer.from('MIT-MAGIC-COOKIE-1', 'latin1')),
    counted(Buffer.from(cookie)),
  ])
}
