// Looks into recorded streams with ffmpeg: sizes, frames, numbers drawn into the pictures, likeness.
import { spawn } from 'node:child_process'
import { run } from './host.ts'

/** Width, height, codec and number of decoded frames of a recording. */
export async function probe(
  file: string,
): Promise<{ width: number; height: number; codec: string; frames: number }> {
  const { code, out, err } = await run('ffprobe', [
    ...['-v', 'error', '-select_streams', 'v:0', '-count_frames'],
    ...['-show_entries', 'stream=width,height,codec_name,nb_read_frames', '-of', 'json', file],
  ])
  if (code !== 0) throw new Error(`ffprobe: ${err}`)
  const stream = JSON.parse(out).streams[0]
  return {
    width: stream.width,
    height: stream.height,
    codec: stream.codec_name,
    frames: Number(stream.nb_read_frames),
  }
}

/**
 * The numbers that moving pictures carry: `bits` blocks of `block` pixels in the top row, most significant bit first.
 * A picture without a clean number gives null.
 */
export async function drawnNumbers(file: string, block = 16, bits = 32): Promise<(number | null)[]> {
  const filter = `crop=${block * bits}:${block}:0:0,scale=${bits}:1:flags=area,format=gray`
  const raw = await bytesOf('ffmpeg', [
    '-v',
    'error',
    '-i',
    file,
    '-vf',
    filter,
    '-fps_mode',
    'passthrough',
    '-f',
    'rawvideo',
    '-',
  ])
  const numbers: (number | null)[] = []
  for (let at = 0; at + bits <= raw.length; at += bits) {
    const row = raw.subarray(at, at + bits)
    const isClean = row.every(level => level < 96 || level > 160)
    numbers.push(isClean ? row.reduce((sum, level) => sum * 2 + (level > 128 ? 1 : 0), 0) : null)
  }
  return numbers
}

/** Peak signal-to-noise ratio, in dB, of the last frame of a recording against a picture. */
export async function psnrOfLastFrame(file: string, picture: string): Promise<number> {
  const last = `${picture}.last.png`
  // From the beginning: a still picture sends its last frame long before the sound ends.
  const cut = await run('ffmpeg', ['-v', 'error', '-y', '-i', file, '-an', '-update', '1', last])
  if (cut.code !== 0) throw new Error(`ffmpeg: ${cut.err}`)
  const { err } = await run('ffmpeg', [
    '-i',
    last,
    '-i',
    picture,
    '-lavfi',
    '[0]format=gbrp[a];[1]format=gbrp[b];[a][b]psnr',
    '-f',
    'null',
    '-',
  ])
  const average = err.match(/average:(inf|[\d.]+)/)?.[1]
  if (!average) throw new Error(`no PSNR: ${err}`)
  return average === 'inf' ? Number.POSITIVE_INFINITY : Number(average)
}

export function bytesOf(command: string, args: readonly string[], input?: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    // A program that has seen enough closes early.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const chunks: Buffer[] = []
    let err = ''
    child.stdout.on('data', chunk => chunks.push(chunk))
    child.stderr.on('data', chunk => (err += chunk))
    child.once('error', reject)
    child.once('close', code =>
      code === 0 ? resolve(Buffer.concat(chunks)) : reject(new Error(`${command}: ${err}`)),
    )
  })
}

/** Mean colour of a patch in the last picture of a raw H.264 stream, as `[red, green, blue]`. */
export async function lastColour(
  h264: Uint8Array,
  patch: { x: number; y: number; size: number },
): Promise<number[]> {
  const { x, y, size } = patch
  const filter = `crop=${size}:${size}:${x}:${y},scale=1:1:flags=area,format=rgb24`
  const args = ['-v', 'error', '-f', 'h264', '-i', 'pipe:0', '-vf', filter, '-fps_mode', 'passthrough']
  const raw = await bytesOf('ffmpeg', [...args, '-f', 'rawvideo', '-'], h264)
  return [...raw.subarray(-3)]
}
