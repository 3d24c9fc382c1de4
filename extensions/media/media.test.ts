// The media service over the real engine: pipelines on one socket, their ends, and the way down.

import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { MediaEngine, type PipelineConfig } from './api.ts'

let host: TestHost

beforeEach(async () => {
  host = await startHost({ extensions: ['status', 'media'] })
})
afterEach(() => host?.stop())

const engine = (): MediaEngine => host.service(MediaEngine)!
const key = () => randomBytes(28)
const config = (over: Partial<PipelineConfig> = {}): PipelineConfig => ({
  id: randomBytes(8).toString('hex'),
  epoch: 1,
  generation: 1,
  keys: { videoOut: key(), audioOut: key(), pathOut: key(), inputIn: key(), pathIn: key() },
  picture: { kind: 'test' },
  mode: { width: 320, height: 240, hz: 30 },
  codec: 'h264',
  bitrateKbps: 1000,
  grants: 0,
  maxDatagramBytes: 1400,
  idleTimeoutMs: 1000,
  ...over,
})
const isFree = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createSocket('udp6')
    socket.once('error', () => resolve(false))
    socket.bind(port, () => socket.close(() => resolve(true)))
  })

test('codecs are told in host info', async () => {
  expect(await engine().codecs()).toContain('h264')
  expect((await host.inject('GET', '/host')).json.codecs).toContain('h264')
})

test('a pipeline whose client never comes ends by itself; one that is closed has stopped', async () => {
  const plane = await engine().openPlane({ address: '::', port: 0 })
  const [silent, closed] = await Promise.all([
    plane.open(config()),
    plane.open(config({ idleTimeoutMs: 60_000 })),
  ])
  expect(silent.sample()).toBeUndefined()
  await closed.resize({ kind: 'test' }, { width: 640, height: 360, hz: 30 }, 2)
  await closed.close()
  await closed.close()
  expect(await closed.ended).toBe('stopped')
  await expect(closed.resize({ kind: 'test' }, { width: 320, height: 240, hz: 30 }, 3)).rejects.toThrow(
    'closed',
  )
  expect(await silent.ended).toBe('peer-gone')
  expect(silent.totals().frames_sent).toBe(0)
  await plane.close()
})

test('what cannot be opened is refused with a sentence and leaves the plane usable', async () => {
  const plane = await engine().openPlane({ address: '::', port: 0 })
  await expect(plane.open(config({ codec: 'vp8' }))).rejects.toThrow('codec vp8')
  const picture = { kind: 'x11', display: ':9999', xauthority: '/nonexistent' } as const
  await expect(plane.open(config({ picture }))).rejects.toThrow()
  await (await plane.open(config())).close()
  await expect(engine().openPlane({ address: '::', port: plane.port })).rejects.toThrow()
  await plane.close()
  await expect(plane.open(config())).rejects.toThrow('closed')
})

test('switched off, it closes planes with their pipelines and gives the port back', async () => {
  const plane = await engine().openPlane({ address: '::', port: 0 })
  const pipelines = await Promise.all([1, 2, 3].map(() => plane.open(config({ idleTimeoutMs: 60_000 }))))
  expect(await isFree(plane.port)).toBe(false)
  await host.extensions.enable('media', false)
  expect(await Promise.all(pipelines.map(({ ended }) => ended))).toEqual(['stopped', 'stopped', 'stopped'])
  expect(await isFree(plane.port)).toBe(true)
  await host.extensions.enable('media', true)
  expect(await engine().codecs()).toContain('h264')
})
