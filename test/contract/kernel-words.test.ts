// The kernel holds no feature word and no extension id. Reason: what the kernel knows about a feature, no stranger can
// replace. Exception: the names of the platform's own that merely contain such a word, listed below.
import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readSources } from './sources.ts'

const featureWords = new Set(
  `audio bitrate codec codecs cursor display displays encoder encoders decoder ffmpeg fps frame frames game games
  gamepad gamescope gpu gpus gstreamer h264 hevc av1 idr keyboard keyframe keyframes kwin launch launcher libraries library
  lutris monitor monitors moonlight mouse mutter nvenc opus pairing pin pins pipewire playback screen session
  sessions steam vaapi video viewer viewers vulkan wayland webrtc wlroots x11 x264 xorg xvfb`.split(/\s+/),
)

/** Names that are not ours to choose, and to pin a certificate, which is no PIN. */
const foreign =
  /TextEncoder|TextDecoder|[Xx]-[Ff]rame-[Oo]ptions|frame-ancestors|\/usr\/(?:local\/)?games|\bpin(?:s|-mismatch)?\b/g

/** Ids that are also the name of something the kernel itself has: its lanes and folder, its noun. */
const kernelNouns = new Set(['plugins', 'runner', 'service'])

const kernel = readSources('kernel').map(({ path, text }) => ({
  path,
  lines: text.replaceAll(foreign, '').split('\n'),
}))

/** `createGpuList` and `GPU_LIST` are the words create, gpu, list. */
const wordsIn = (line: string): string[] =>
  line
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)

const offences = (words: (line: string) => readonly string[]): string[] =>
  kernel.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) => words(line).map(word => `${path}:${i + 1}: ${word}`)),
  )

test('no feature word in the kernel', () => {
  expect(kernel.length).toBeGreaterThan(0)
  expect(wordsIn('createGPUList x11_display')).toEqual(['create', 'gpu', 'list', 'x11', 'display'])
  expect(offences(line => wordsIn(line).filter(word => featureWords.has(word)))).toEqual([])
})

test('no extension id in the kernel', () => {
  const ids = readdirSync('extensions', { withFileTypes: true }).filter(
    e => e.isDirectory() && !kernelNouns.has(e.name),
  )
  const quoted = new Set(ids.flatMap(({ name }) => [`'${name}'`, `"${name}"`, `\`${name}\``]))
  expect(
    offences(line => (line.match(/(['"`])[a-z0-9-]+\1/g) ?? []).filter(literal => quoted.has(literal))),
  ).toEqual([])
})
