// Holds decoded test pictures to what the engine drew: the number in the top row says which picture it should be.
import { spawn } from 'node:child_process'

export interface Likeness {
  /** The number drawn into the picture. */
  readonly number: number
  /** Peak signal-to-noise ratio of the luma against the picture of that number. */
  readonly decibels: number
}

/** Luma of RGB by BT.601, limited range. */
const luma = (r: number, g: number, b: number) => 16 + (65.738 * r + 129.057 * g + 25.064 * b) / 256

/** As native/core/source_pattern.cc draws it, without the rows of number and clock. */
const painter = (width: number, height: number) => {
  const background = new Float32Array(width * height)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const fold = x * 2 < width ? x * 2 : 2 * (width - x)
      const red = Math.floor((fold * 255) / (width + 1))
      const green = Math.floor((y * 255) / height)
      const blue = ((x >> 6) + (y >> 6)) % 2 ? 160 : 64
      background[y * width + x] = luma(red, green, blue)
    }
  }
  const side = Math.floor(height / 6 / 2) * 2
  const bounce = (step: number, range: number) => {
    const at = step % (2 * range)
    return at < range ? at : 2 * range - at
  }
  const square = luma(0xff, 0xc0, 0x20)
  return (number: number) => {
    const shift = (number * 4) % width
    const left = bounce(number * 7, width - side)
    const top = bounce(number * 5, height - side)
    return (x: number, y: number) =>
      x >= left && x < left + side && y >= top && y < top + side
        ? square
        : background[y * width + ((x + shift) % width)]!
  }
}

/** Rows of number and clock. */
const skipped = 32

/** Every decoded picture of an H.264 file, in order, against the test picture of its own number; for widths 512 to 1023. */
export function likeness(file: string, mode: { width: number; height: number }): Promise<Likeness[]> {
  const { width, height } = mode
  const paint = painter(width, height)
  const found: Likeness[] = []
  const judge = (picture: Buffer): Likeness => {
    let number = 0
    for (let bit = 0; bit < 32; bit++)
      number = number * 2 + (picture[8 * width + bit * 16 + 8]! > 128 ? 1 : 0)
    const expected = paint(number)
    let sum = 0
    let count = 0
    // Every third pixel of every second row: enough to see a damaged slice.
    for (let y = skipped; y < height; y += 2) {
      for (let x = 0; x < width; x += 3) {
        sum += (picture[y * width + x]! - expected(x, y)) ** 2
        count++
      }
    }
    return { number, decibels: 10 * Math.log10(255 ** 2 / Math.max(1e-9, sum / count)) }
  }
  return new Promise((resolve, reject) => {
    const ffmpeg = spawn(
      'ffmpeg',
      [
        ...['-v', 'fatal', '-f', 'h264', '-i', file, '-fps_mode', 'passthrough'],
        ...['-vf', 'extractplanes=y', '-f', 'rawvideo', '-'],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
    let rest = Buffer.alloc(0)
    let err = ''
    const size = width * height
    ffmpeg.stdout.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      for (; rest.length >= size; rest = rest.subarray(size)) found.push(judge(rest.subarray(0, size)))
    })
    ffmpeg.stderr.on('data', chunk => (err += chunk))
    ffmpeg.once('error', reject)
    ffmpeg.once('close', code => (code === 0 ? resolve(found) : reject(new Error(`ffmpeg: ${err}`))))
  })
}
