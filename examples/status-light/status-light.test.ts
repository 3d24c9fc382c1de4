// The light as the real plugin runner runs it, behind its walls, beside a host.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pairingPending } from 'svc-host/api/pairing'
import { streamStarted, streamStopped } from 'svc-host/api/sessions'
import { statusCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'

let isStreaming = false
/** Stands in for the planes, which stream. */
const plane: InlineExtension = {
  manifest: { id: 'plane' },
  extension: defineExtension({
    setup: ctx => ctx.tap(statusCollect, record => ({ ...record, video_streaming: isStreaming })),
  }),
}
let host: TestHost
afterEach(() => host.stop())

test('is dark, blinks when somebody knocks, is lit while something streams, and dark again at its end', {
  timeout: 90_000,
}, async () => {
  host = await startHost({ extensions: ['registrations', 'logs', 'events', 'status', 'runner', plane] })
  const state = join(host.configDir, 'plugin-state/status-light')
  mkdirSync(join(host.configDir, 'scripts'), { mode: 0o700 })
  mkdirSync(state, { recursive: true })
  // A file of its own stands in for an LED, which the test's machine may not have.
  writeFileSync(join(state, 'led'), '')
  chmodSync(join(state, 'led'), 0o666)
  writeFileSync(join(state, 'led.json'), '{"brightness": "/state/led"}')
  const script = fileURLToPath(new URL('status-light.js', import.meta.url))
  copyFileSync(script, join(host.configDir, 'scripts/status-light.js'))
  const read = (name: string): string => {
    try {
      return readFileSync(join(state, name), 'utf8').trim()
    } catch {
      return ''
    }
  }
  const shows = (light: string) => expect.poll(() => read('light'), { timeout: 40_000 }).toBe(light)
  await host.inject('POST', '/store/runtime', { body: { enabled: true } })
  await shows('dark')
  const device = { name: 'Ann', fingerprint: 'a'.repeat(64), plane: 'native' }
  await expect
    .poll(() => {
      // Until the light listens.
      host.emit(pairingPending, { device } as never)
      return read('light')
    })
    .toBe('blinking')
  isStreaming = true
  const stream = { mode: '1280x720@60', hdr: false, client: 'Ann', plane: 'native' }
  host.emit(streamStarted, { stream } as never)
  await shows('lit')
  await expect.poll(() => read('led')).toBe('1')
  isStreaming = false
  host.emit(streamStopped, { stream } as never)
  await shows('dark')
  isStreaming = true
  host.emit(streamStarted, { stream } as never)
  await shows('lit')
  await host.inject('POST', '/store/runtime', { body: { enabled: false } })
  await shows('dark')
  await expect.poll(() => read('led')).toBe('0')
  const { entries } = (await host.inject('GET', '/logs')).json
  const lines = entries.filter(({ target }: { target: string }) => target === 'plugin:status-light')
  expect(lines.map(({ msg }: { msg: string }) => msg)).toEqual(
    expect.arrayContaining(['dark', 'blinking', 'lit']),
  )
})
