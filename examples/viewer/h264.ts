// What a recording must know of an H.264 stream: its NAL units, its parameter sets, its picture size.

export const nalTypes = { idr: 5, sps: 7, pps: 8 } as const

/** The NAL units of an Annex B stream, without start codes and the zeros around them. */
export const nalUnits = (annexB: Buffer): Buffer[] => {
  const units: Buffer[] = []
  let start = -1
  const code = Buffer.from([0, 0, 1])
  for (let at = annexB.indexOf(code); ; at = annexB.indexOf(code, at + 3)) {
    if (start >= 0) {
      let end = at < 0 ? annexB.length : at
      while (end > start && annexB[end - 1] === 0) end--
      if (end > start) units.push(annexB.subarray(start, end))
    }
    if (at < 0) return units
    start = at + 3
  }
}

export const nalType = (unit: Buffer): number => unit[0]! & 0x1f

/** Removes the emulation prevention bytes (00 00 03). */
const withoutEmulation = (unit: Buffer): Buffer => {
  const out: number[] = []
  let zeros = 0
  for (const byte of unit) {
    if (zeros >= 2 && byte === 3) zeros = 0
    else {
      out.push(byte)
      zeros = byte === 0 ? zeros + 1 : 0
    }
  }
  return Buffer.from(out)
}

/** Bits of a sequence parameter set; reading past the end throws RangeError. */
const bitReader = (bytes: Buffer) => {
  let at = 0
  const bit = (): number => {
    const byte = bytes[at >> 3]
    if (byte === undefined) throw new RangeError('the parameter set ends too early')
    return (byte >> (7 - (at++ & 7))) & 1
  }
  const bits = (n: number): number => {
    let value = 0
    for (let i = 0; i < n; i++) value = value * 2 + bit()
    return value
  }
  /** ue(v), H.264 9.1. */
  const unsigned = (): number => {
    let zeros = 0
    while (bit() === 0) if (++zeros > 32) throw new RangeError('a number of the parameter set is too long')
    return 2 ** zeros - 1 + bits(zeros)
  }
  const signed = (): number => {
    const code = unsigned()
    return code % 2 === 1 ? (code + 1) / 2 : -code / 2
  }
  return { bit, bits, unsigned, signed }
}

const skipScalingLists = (read: ReturnType<typeof bitReader>, chroma: number) => {
  for (let list = 0; list < (chroma === 3 ? 12 : 8); list++) {
    if (read.bit() === 0) continue
    let next = 8
    for (let i = 0; i < (list < 6 ? 16 : 64) && next !== 0; i++) next = (next + read.signed() + 256) % 256
  }
}

const highProfiles = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]

/** The picture size that a sequence parameter set (H.264 7.3.2.1.1) tells; undefined when it is broken. */
export const pictureSize = (sps: Buffer): { readonly width: number; readonly height: number } | undefined => {
  try {
    const read = bitReader(withoutEmulation(sps.subarray(1)))
    const profile = read.bits(8)
    read.bits(16)
    read.unsigned()
    let chroma = 1
    if (highProfiles.includes(profile)) {
      chroma = read.unsigned()
      if (chroma === 3) read.bit()
      read.unsigned()
      read.unsigned()
      read.bit()
      if (read.bit()) skipScalingLists(read, chroma)
    }
    read.unsigned()
    const order = read.unsigned()
    if (order === 0) read.unsigned()
    else if (order === 1) {
      read.bit()
      read.signed()
      read.signed()
      const cycle = read.unsigned()
      if (cycle > 255) return undefined
      for (let i = 0; i < cycle; i++) read.signed()
    }
    read.unsigned()
    read.bit()
    const widthInBlocks = read.unsigned() + 1
    const heightInMaps = read.unsigned() + 1
    const isProgressive = read.bit()
    if (!isProgressive) read.bit()
    read.bit()
    const crop = read.bit() ? [0, 0, 0, 0].map(() => read.unsigned()) : [0, 0, 0, 0]
    const [left = 0, right = 0, top = 0, bottom = 0] = crop
    const unitX = chroma === 1 || chroma === 2 ? 2 : 1
    const unitY = (chroma === 1 ? 2 : 1) * (2 - isProgressive)
    const width = widthInBlocks * 16 - unitX * (left + right)
    const height = (2 - isProgressive) * heightInMaps * 16 - unitY * (top + bottom)
    return width > 0 && height > 0 ? { width, height } : undefined
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** AVCDecoderConfigurationRecord (ISO/IEC 14496-15) with 4-byte lengths. */
export const decoderConfiguration = (sps: Buffer, pps: Buffer): Buffer => {
  const sized = (unit: Buffer) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(unit.length)
    return Buffer.concat([length, unit])
  }
  const head = Buffer.from([1, sps[1]!, sps[2]!, sps[3]!, 0xff, 0xe1])
  return Buffer.concat([head, sized(sps), Buffer.from([1]), sized(pps)])
}

/** NAL units with their length before each instead of start codes. */
export const lengthPrefixed = (units: readonly Buffer[]): Buffer =>
  Buffer.concat(
    units.flatMap(unit => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(unit.length)
      return [length, unit]
    }),
  )
