// Sessions through the real kernel: admission, the order of events, routes, status, and the way down.
import { defineExtension } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type SessionControl,
  type SessionEntry,
  SessionRegistry,
  type SessionRequest,
  sessionAdmit,
  sessionEnforced,
} from './api.ts'

const fingerprint = 'ab'.repeat(32)
const sofa: SessionRequest = {
  plane: 'native',
  fingerprint,
  client: fingerprint.slice(0, 16),
  name: 'Sofa',
  address: '192.168.0.9',
}
const stranger: SessionRequest = {
  plane: 'compat',
  fingerprint: null,
  client: '192.168.0.7',
  name: '',
  address: '192.168.0.7',
}
const facts = {
  mode: { width: 1280, height: 720, hz: 60 },
  hdr: false,
  codec: 'h264',
  bitDepth: 8,
  chroma: '4:2:0',
  bitrateKbps: 8000,
  packetSizeBytes: 1340,
  accessLevel: 'full',
} as const

let host: TestHost
let registry: SessionRegistry
/** What the tap of `session.admit` answers. */
let verdict: () => { refuse: string } | undefined
let keyframes: number

beforeEach(async () => {
  verdict = () => undefined
  keyframes = 0
  const plane = {
    manifest: { id: 'plane', requires: { 'session.registry': '^1.0.0' } },
    extension: defineExtension({
      deps: { sessions: SessionRegistry },
      setup: (ctx, { sessions }) => {
        registry = sessions
        ctx.tap(sessionAdmit, () => verdict())
        ctx.tap(sessionEnforced, names => [...names, 'session_on_game_exit'])
      },
    }),
  }
  host = await startHost({ extensions: ['status', 'sessions', plane] })
})
afterEach(() => host?.stop())

const entered = async (request = sofa): Promise<SessionEntry> => {
  const entry = await registry.admit(request)
  if ('refused' in entry) throw new Error(entry.message)
  return entry
}
const goLive = (entry: SessionEntry, stops: string[] = []): SessionEntry => {
  const control: SessionControl = {
    stop: async how => {
      stops.push(how)
      entry.end('stopped_by_operator', 'error')
    },
    requestKeyframe: () => void keyframes++,
    sample: () => undefined,
  }
  entry.live(facts, control)
  return entry
}
const kinds = () =>
  host
    .events()
    .map(e => e.kind)
    .filter(kind => /^(client|session|stream)\./.test(kind))
const status = async () => (await host.inject('GET', '/status')).json

test('a session that streams tells its life in order', async () => {
  const entry = goLive(await entered())
  entry.streaming(41.6)
  entry.streaming(99)
  entry.resized({ width: 1920, height: 1080, hz: 60 }, 120.4)
  entry.end('local', 'quit', { frames_sent: 100 })
  entry.end('lost', 'timeout')
  expect(kinds()).toEqual([
    'client.connected',
    'session.started',
    'stream.started',
    'stream.stopped',
    'session.ended',
    'client.disconnected',
  ])
  const [connected, started, , stopped, ended, left] = host
    .events()
    .filter(e => /^(client|session|stream)\./.test(e.kind))
  const client = { name: 'Sofa', fingerprint, plane: 'native' }
  expect(connected).toMatchObject({ client })
  expect(started).toMatchObject({
    session: { id: 1, client: sofa.client, fingerprint, mode: '1280x720@60', hdr: false, plane: 'native' },
  })
  expect(stopped).toMatchObject({ stream: { mode: '1920x1080@60', client: sofa.client, plane: 'native' } })
  expect(ended).toMatchObject({
    session: { id: 1, mode: '1920x1080@60' },
    summary: {
      id: 1,
      client: sofa.client,
      client_name: 'Sofa',
      started_unix: expect.any(Number),
      duration_s: 0,
      mode: '1920x1080@60',
      hdr: false,
      codec: 'h264',
      bit_depth: 8,
      chroma: '4:2:0',
      bitrate_kbps: 8000,
      bringup_ms: 42,
      ended: 'local',
      frames_sent: 100,
    },
  })
  expect(left).toMatchObject({ client, reason: 'quit' })
})

test('one that never went live ends without a session, one without video without a stream', async () => {
  const early = await entered()
  early.end('host_error', 'error')
  expect(kinds()).toEqual(['client.connected', 'client.disconnected'])
  goLive(await entered(stranger)).end('lost', 'timeout')
  expect(kinds().slice(2)).toEqual([
    'client.connected',
    'session.started',
    'session.ended',
    'client.disconnected',
  ])
  expect(host.events().find(e => e.kind === 'session.started')?.['session']).toEqual({
    id: 2,
    client: '192.168.0.7',
    mode: '1280x720@60',
    hdr: false,
    plane: 'compat',
  })
})

test('status and summary show what is live', async () => {
  expect(await status()).toMatchObject({ active_sessions: 0, session: null, stream: null, sessions: [] })
  const entry = goLive(await entered())
  expect(await status()).toMatchObject({ video_streaming: false, active_sessions: 1 })
  entry.streaming(40)
  entry.changed({ bitrateKbps: 9000, accessLevel: 'view' })
  goLive(await entered())
  const size = { width: 1280, height: 720, fps: 60 }
  const row = {
    id: 1,
    plane: 'native',
    client: sofa.client,
    client_name: 'Sofa',
    mode: '1280x720@60',
    hdr: false,
    uptime_s: 0,
    access_level: 'view',
    time_to_first_frame_ms: 40,
    last_resize_ms: null,
  }
  expect(await status()).toMatchObject({
    video_streaming: true,
    active_sessions: 2,
    session: size,
    session_id: 1,
    stream: {
      ...size,
      bitrate_kbps: 9000,
      packet_size: 1340,
      min_fec: 0,
      codec: 'h264',
      time_to_first_frame_ms: 40,
      last_resize_ms: null,
    },
    sessions: [row, { id: 2, time_to_first_frame_ms: null }],
  })
  expect((await host.inject('GET', '/local/summary')).json).toMatchObject({
    audio_streaming: true,
    video_streaming: true,
    session: size,
    client_name: null,
  })
  goLive(await entered(stranger))
  const merged = await status()
  expect(merged).not.toHaveProperty('session_id')
  expect(merged.sessions[2]).not.toHaveProperty('id')
})

test('four native sessions at once, and a place again when one goes', async () => {
  const entries = await Promise.all([1, 2, 3, 4].map(() => entered()))
  expect(await registry.admit(sofa)).toMatchObject({ refused: 'busy' })
  await entered(stranger)
  entries[0]!.end('local', 'quit')
  entries[0]!.end('local', 'quit')
  await entered()
  expect(await registry.admit(sofa)).toMatchObject({ refused: 'busy' })
})

test('a tap refuses with a sentence; one that fails refuses too; neither takes a place', async () => {
  verdict = () => ({ refuse: 'not at night' })
  for (let i = 0; i < 6; i++) {
    expect(await registry.admit(sofa)).toEqual({ refused: 'denied', message: 'not at night' })
  }
  verdict = () => {
    throw new Error('bug')
  }
  expect(await registry.admit(sofa)).toMatchObject({
    refused: 'denied',
    message: expect.stringContaining('log'),
  })
  expect(kinds()).toEqual([])
  verdict = () => undefined
  await Promise.all([1, 2, 3, 4].map(() => entered()))
})

test('stop and keyframe reach every live session', async () => {
  expect((await host.inject('DELETE', '/session')).status).toBe(204)
  const none = await host.inject('POST', '/session/idr')
  expect([none.status, none.json]).toEqual([409, { error: 'nothing is streaming' }])
  const stops: string[] = []
  goLive(await entered(), stops)
  goLive(await entered(stranger), stops)
  expect((await host.inject('POST', '/session/idr')).status).toBe(202)
  expect(keyframes).toBe(2)
  expect((await host.inject('DELETE', '/session')).status).toBe(204)
  expect(stops).toEqual(['operator', 'operator'])
  expect((await status()).active_sessions).toBe(0)
  expect(kinds().slice(-4)).toEqual([
    'session.ended',
    'client.disconnected',
    'session.ended',
    'client.disconnected',
  ])
})

test('a session that cannot be stopped is over all the same', async () => {
  const entry = await entered()
  entry.live(facts, {
    stop: () => Promise.reject(new Error('stuck')),
    requestKeyframe: () => {},
    sample: () => undefined,
  })
  expect((await host.inject('DELETE', '/session')).status).toBe(204)
  expect((await status()).active_sessions).toBe(0)
  expect(
    host.logs.some(line => line.extension === 'sessions' && line.msg.includes('could not be stopped')),
  ).toBe(true)
})

test('switched off, it stops its sessions as the host would', async () => {
  const stops: string[] = []
  goLive(await entered(), stops)
  await host.extensions.enable('sessions', false)
  expect(stops).toEqual(['stopping'])
  expect(kinds().at(-1)).toBe('client.disconnected')
  expect((await host.inject('POST', '/session/idr')).status).toBe(404)
  await host.extensions.enable('sessions', true)
  expect((await host.inject('POST', '/session/idr')).status).toBe(409)
})

test('session settings: defaults, the whole object stored, numbers clamped, mistakes refused', async () => {
  const read = () => host.inject('GET', '/session/settings')
  const defaults = {
    version: 1,
    game_on_session_end: 'keep',
    session_on_game_exit: true,
    game_on_new_launch: 'keep',
    disconnect_grace_seconds: 300,
  }
  const enforced = ['session_on_game_exit']
  expect((await read()).json).toEqual({ settings: defaults, configured: false, enforced })
  const put = (body: object) => host.inject('PUT', '/session/settings', { body })
  const stored = await put({ game_on_session_end: 'always', disconnect_grace_seconds: 3 })
  const settings = { ...defaults, game_on_session_end: 'always', disconnect_grace_seconds: 10 }
  expect([stored.status, stored.json]).toEqual([200, { settings, configured: true, enforced }])
  const wrong = await put({ game_on_new_launch: 'explode' })
  expect([wrong.status, wrong.json.error]).toEqual([400, expect.stringContaining('game_on_new_launch')])
  for (const enabled of [false, true]) await host.extensions.enable('sessions', enabled)
  expect((await read()).json.settings).toEqual(settings)
})
