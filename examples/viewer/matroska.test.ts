// Recordings as ffprobe reads them, from a real H.264 stream.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decoderConfiguration, lengthPrefixed, nalType, nalTypes, nalUnits, pictureSize } from './h264.ts'
import { createRecording } from './matroska.ts'

let dir: string
let units: Buffer[]
/** Access units of 40 frames, 322x180: a size that needs cropping. */
let frames: Buffer[][]
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'svc-viewer-'))
  const source = 'testsrc2=size=322x180:rate=30'
  const encode = [
    '-c:v',
    'libx264',
    '-preset',
    'ultrafast',
    '-pix_fmt',
    'yuv420p',
    '-g',
    '15',
    '-x264-params',
    'aud=1',
  ]
  const raw = join(dir, 'in.h264')
  execFileSync('ffmpeg', [
    '-v',
    'error',
    '-f',
    'lavfi',
    '-i',
    source,
    '-frames:v',
    '40',
    ...encode,
    '-f',
    'h264',
    raw,
  ])
  units = nalUnits(readFileSync(raw))
  frames = []
  for (const unit of units) {
    if (nalType(unit) === 9) frames.push([])
    frames.at(-1)!.push(unit)
  }
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const probe = (path: string, entries: string) =>
  JSON.parse(
    execFileSync('ffprobe', ['-v', 'error', '-count_frames', '-of', 'json', '-show_entries', entries, path], {
      encoding: 'utf8',
    }),
  )
const find = (type: number) => units.find(unit => nalType(unit) === type)!
const track = () => ({
  ...pictureSize(find(nalTypes.sps))!,
  hz: 60,
  configuration: decoderConfiguration(find(nalTypes.sps), find(nalTypes.pps)),
})
const isKeyframe = (frame: Buffer[]) => frame.some(unit => nalType(unit) === nalTypes.idr)

describe('a recording', () => {
  it('has the size, every frame at its capture time, and the rate that was measured', () => {
    const path = join(dir, 'out.mkv')
    const recording = createRecording(path, track())
    // 25 fps on average, unevenly, from an arbitrary origin of the host's clock.
    const times = frames.map((_, i) => 123_456_789 + i * 40_000 + (i % 3) * 7000)
    frames.forEach((frame, i) => {
      recording.video(lengthPrefixed(frame), times[i]!, isKeyframe(frame))
    })
    recording.close()
    const { streams, packets, format } = probe(
      path,
      'stream=codec_name,width,height,nb_read_frames,avg_frame_rate:packet=pts_time,flags:format=duration',
    )
    expect(streams[0]).toMatchObject({ codec_name: 'h264', width: 322, height: 180, nb_read_frames: '40' })
    const [numerator, denominator] = streams[0].avg_frame_rate.split('/').map(Number)
    expect(numerator / denominator).toBeCloseTo(25, 1)
    expect(packets.map((p: { pts_time: string }) => Math.round(Number(p.pts_time) * 10_000))).toEqual(
      times.map(time => Math.round((time - times[0]!) / 100)),
    )
    expect(packets.filter((p: { flags: string }) => p.flags.startsWith('K'))).toHaveLength(3)
    expect(Number(format.duration)).toBeCloseTo(1.6, 1)
    const decoding = execFileSync('ffmpeg', ['-v', 'error', '-i', path, '-f', 'null', '-'], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
    expect(decoding).toBe('')
  })
  it('with sound has two tracks, and spans more than one cluster', () => {
    const path = join(dir, 'sound.mkv')
    const recording = createRecording(path, track(), { channels: 2, rate: 48_000 })
    frames.forEach((frame, i) => {
      recording.video(lengthPrefixed(frame), i * 500_000, isKeyframe(frame))
      // An Opus packet of silence: one 20 ms CELT frame.
      recording.audio(Buffer.from([0xfc, 0xff, 0xfe]), i * 500_000 + 20_000)
    })
    recording.close()
    const { streams } = probe(path, 'stream=codec_name,channels,sample_rate,nb_read_frames')
    expect(streams[1]).toMatchObject({
      codec_name: 'opus',
      channels: 2,
      sample_rate: '48000',
      nb_read_frames: '40',
    })
    expect(streams[0].nb_read_frames).toBe('40')
    expect(statSync(path).size).toBeGreaterThan(units.reduce((n, unit) => n + unit.length, 0))
  })
})

describe('H.264', () => {
  it('units survive the way through Annex B with either start code', () => {
    const unit = fc
      .uint8Array({ minLength: 1, maxLength: 30 })
      .map(bytes => Buffer.from([0x65, ...bytes.map(b => b | 1)]))
    fc.assert(
      fc.property(fc.array(fc.tuple(unit, fc.boolean()), { minLength: 1 }), list => {
        const stream = Buffer.concat(
          list.flatMap(([u, long]) => [Buffer.from(long ? [0, 0, 0, 1] : [0, 0, 1]), u]),
        )
        expect(nalUnits(stream)).toEqual(list.map(([u]) => u))
      }),
      { seed: 2 },
    )
  })
  it('units and sizes of any bytes are read without an error', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(0, 0, 1, 3, 0x67, 0x68, 0xff, 0x80), { maxLength: 200 }),
        bytes => {
          for (const unit of nalUnits(Buffer.from(bytes))) {
            expect(unit.length).toBeGreaterThan(0)
            const size = pictureSize(unit)
            if (size) expect(Math.min(size.width, size.height)).toBeGreaterThan(0)
          }
        },
      ),
      { numRuns: 500, seed: 4 },
    )
  })
})
