// What PulseAudio is told, held against a real PulseAudio: its command line, its sinks and their channels.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openAudioSource } from '../../native/index.ts'
import { loadSink, pulseArguments, sinkName, useSink } from './pulse.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-sound-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const socket = () => join(folder, 'native')
const cookie = () => join(folder, 'cookie')

function startServer(): { stdin: Writable; text(): string; ended: Promise<number | null> } {
  writeFileSync(cookie(), randomBytes(256), { mode: 0o600 })
  const args = pulseArguments({ socket: socket(), cookie: cookie(), channels: 2 })
  const env = { PATH: process.env['PATH'], HOME: folder, XDG_RUNTIME_DIR: folder }
  const server = spawn('pulseaudio', args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  let text = ''
  server.stdout.on('data', chunk => {
    text += chunk
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    server.once('error', reject)
    server.once('close', resolve)
  })
  return { stdin: server.stdin, text: () => text, ended }
}

/** Tells a real server's console some lines and gives all that it answers until it has ended with its input. */
async function converse(...lines: string[]): Promise<{ code: number | null; text: string }> {
  const server = startServer()
  for (const line of lines) server.stdin.write(line)
  server.stdin.end()
  return { code: await server.ended, text: server.text() }
}

test('a real server takes the command line, offers one stereo sink and no hardware, and ends with its console', async () => {
  const { code, text } = await converse('list-sinks\n', 'list-modules\n')
  expect(code).toBe(0)
  expect(text).toContain('1 sink(s) available')
  expect(text).toContain(`name: <${sinkName(2)}>`)
  expect(text).toMatch(/sample spec: float32le 2ch 48000Hz/)
  expect(text).not.toMatch(/module-(alsa|udev|jack|native-protocol-tcp)/)
})

test.each([6, 8] as const)('a sink of %i channels is made and becomes the default', async channels => {
  const { code, text } = await converse(loadSink(channels), useSink(channels), 'list-sinks\n')
  expect(code).toBe(0)
  expect(text).toContain('2 sink(s) available')
  const sink = text.slice(text.indexOf(`name: <${sinkName(channels)}>`) - 80)
  expect(sink).toMatch(new RegExp(`sample spec: float32le ${channels}ch 48000Hz`))
  expect(text).toMatch(new RegExp(`\\* index: \\d+\\s+name: <${sinkName(channels)}>`))
})

test('while the engine records, programs that are started get no descriptor of its connection', async () => {
  /** What is open in a program that is started now, besides its standard streams. */
  const handedOver = (): string[] =>
    execFileSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' }).match(/ \d{2,} -> .*/g) ?? []
  const server = startServer()
  const before = handedOver()
  const device = `${sinkName(2)}.monitor`
  const source = await openAudioSource({
    kind: 'pulse',
    channels: 2,
    server: socket(),
    cookie: cookie(),
    device,
  })
  try {
    const isRecording = () => {
      server.stdin.write('list-source-outputs\n')
      return server.text().includes('1 source output(s) available')
    }
    await expect.poll(isRecording, { timeout: 10_000 }).toBe(true)
    expect(handedOver()).toEqual(before)
  } finally {
    await source.close()
    server.stdin.end()
  }
  expect(await server.ended).toBe(0)
})
