// The display settings over the API and on disk, and what each conflict policy makes of a second client.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Mode } from 'svc-host/api/media'
import { startHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type DisplayBackend, DisplayPool, DisplaysBusy } from './api.ts'
import { DisplaySettings, DisplaySettingsInput, presets, tidyPositions } from './settings.ts'

const mode: Mode = { width: 1280, height: 720, hz: 60 }
let host: Awaited<ReturnType<typeof startHost>>
beforeEach(async () => {
  host = await startHost({ extensions: ['displays'] })
})
afterEach(() => host.stop())

const put = (body: unknown) => host.inject('PUT', '/display/settings', { body })
const get = async () => (await host.inject('GET', '/display/settings')).json

const memory: DisplayBackend = {
  id: 'x11',
  label: 'memory',
  owned: true,
  preference: 0,
  available: async () => true,
  create: async () => ({
    picture: { kind: 'test' },
    lost: new Promise(() => {}),
    resize: async () => ({ kind: 'test' }),
    alive: async () => true,
    close: async () => {},
  }),
}
const acquire = (client: string, at: Mode = mode) =>
  host
    .service(DisplayPool)!
    .acquire({ mode: at, plane: 'native', fingerprint: client.repeat(32), client: client.repeat(8) })
const rows = async () => (await host.inject('GET', '/display/state')).json.displays

test('before anything is stored the defaults act; what is stored is there after the next start', async () => {
  const before = await get()
  expect(before).toMatchObject({
    configured: false,
    settings: {
      version: 1,
      preset: 'custom',
      keep_alive: { mode: 'duration', seconds: 10 },
      mode_conflict: 'separate',
      max_displays: 4,
      game_session: 'auto',
      ddc_power_off: false,
    },
    custom_presets: [],
    enforced: ['keep_alive', 'topology', 'mode_conflict', 'identity', 'layout'],
  })
  expect(before.presets.map(({ id }: { id: string }) => id)).toEqual([
    ...['default', 'gaming-rig', 'shared-desktop', 'hotdesk', 'workstation'],
  ])
  const stored = await put({ mode_conflict: 'join', keep_alive: 'forever', max_displays: 99, version: 7 })
  expect(stored).toMatchObject({
    status: 200,
    json: {
      configured: true,
      settings: { version: 1, mode_conflict: 'join', keep_alive: { mode: 'forever' }, max_displays: 16 },
    },
  })
  expect(JSON.parse(readFileSync(join(host.configDir, 'display-settings.json'), 'utf8'))).toEqual(
    stored.json.settings,
  )
  await host.extensions.enable('displays', false)
  await host.extensions.enable('displays', true)
  expect(await get()).toEqual(stored.json)
  // The whole object is replaced: what is missing goes back to its default.
  expect((await put({})).json.settings).toEqual(before.settings)
})

test.each([
  { mode_conflict: 'fight' },
  { keep_alive: { mode: 'duration' } },
  { keep_alive: 10 },
  { max_displays: 'four' },
  { layout: { mode: 'auto-row', positions: { 1: { x: 0.5, y: 0 } } } },
  { preset: 'mine' },
  [],
])('%j is refused, and nothing is stored', async body => {
  expect((await put(body)).status).toBe(400)
  expect((await get()).configured).toBe(false)
})

test('a preset acts in place of the stored axes, which stay for the day when it is custom again', async () => {
  const layout = {
    mode: 'auto-row',
    positions: { '01': { x: 5, y: 6 }, 16: { x: 1, y: 1 }, 2: { x: 7, y: 8 } },
  }
  await put({ preset: 'hotdesk', mode_conflict: 'join', layout })
  const hotdesk = await get()
  expect(hotdesk.settings).toMatchObject({
    mode_conflict: 'join',
    layout: { positions: { 1: { x: 5, y: 6 } } },
  })
  expect(hotdesk.settings.layout.positions).not.toHaveProperty('16')
  expect(host.logs.some(({ msg }) => msg.includes('left out: 16'))).toBe(true)
  expect(hotdesk.effective).toEqual(presets.find(({ id }) => id === 'hotdesk')!.fields)
  await put({ preset: 'workstation', layout })
  expect((await get()).effective.layout).toEqual({
    mode: 'manual',
    positions: { 1: { x: 5, y: 6 }, 2: { x: 7, y: 8 } },
  })
})

test('whatever is sent, it is refused or it is whole; places end up at slots 1 to 15, plain keys first', () => {
  const place = fc.record({ x: fc.integer(), y: fc.integer() })
  const key = fc.oneof(fc.string(), fc.stringMatching(/^0{0,2}\d{1,2}$/))
  fc.assert(
    fc.property(fc.dictionary(key, place), given => {
      const { positions, dropped } = tidyPositions(given)
      for (const [slot, at] of Object.entries(positions)) {
        expect(Number(slot)).toBeGreaterThanOrEqual(1)
        expect(Number(slot)).toBeLessThanOrEqual(15)
        if (Object.hasOwn(given, slot)) expect(at).toEqual(given[slot])
      }
      expect(Object.keys(positions).length + dropped.length).toBeLessThanOrEqual(Object.keys(given).length)
    }),
  )
  const near = fc.record(
    {
      keep_alive: fc.oneof(fc.anything(), fc.constantFrom('off', 'forever')),
      mode_conflict: fc.oneof(fc.anything(), fc.constantFrom('join', 'steal')),
      max_displays: fc.anything(),
      layout: fc.anything(),
      version: fc.anything(),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.oneof(near, fc.anything()), given => {
      const read = DisplaySettingsInput.safeParse(given)
      if (!read.success) return
      expect(DisplaySettings.safeParse(read.data).success).toBe(true)
      expect(read.data.max_displays).toBeGreaterThanOrEqual(1)
      expect(read.data.max_displays).toBeLessThanOrEqual(16)
    }),
  )
})

test('join: even two who come at once share one display; its mode stays while they do', async () => {
  await put({ mode_conflict: 'join' })
  host.service(DisplayPool)!.register(memory)
  const [first, second] = await Promise.all([acquire('ab'), acquire('cd', { ...mode, width: 1920 })])
  expect(await rows()).toMatchObject([{ slot: 1, sessions: 2, mode: '1280x720@60' }])
  expect([first.isJoined, second.isJoined, first.isShared, second.isShared]).toEqual([
    ...[false, true, true, true],
  ])
  expect(second.mode).toEqual(mode)
  await expect(second.resize({ ...mode, width: 1920 })).rejects.toThrow('shared by 2 sessions')
  await first.release({ deliberate: true })
  await second.resize({ ...mode, width: 1920 })
  expect(await rows()).toMatchObject([{ slot: 1, sessions: 1, mode: '1920x720@60' }])
})

test('reject: the second is told that the host is busy until the first has gone', async () => {
  await put({ mode_conflict: 'reject' })
  host.service(DisplayPool)!.register(memory)
  const first = await acquire('ab')
  await expect(acquire('cd')).rejects.toBeInstanceOf(DisplaysBusy)
  await first.release({ deliberate: false })
  expect((await acquire('cd')).slot).toBe(2)
})

test('steal: who was there is told and waited for, and only then the newcomer has a display', async () => {
  await put({ mode_conflict: 'steal' })
  host.service(DisplayPool)!.register(memory)
  const first = await acquire('ab')
  let isReleased = false
  void first.taken.then(async () => {
    await new Promise(setImmediate)
    isReleased = true
    await first.release({ deliberate: false })
  })
  const second = await acquire('cd')
  expect([isReleased, second.isJoined]).toEqual([true, false])
  expect(await rows()).toMatchObject([
    { slot: 1, state: 'lingering' },
    { slot: 2, state: 'active' },
  ])
})

test('a policy that changes acts from the next connect on', async () => {
  host.service(DisplayPool)!.register(memory)
  await acquire('ab')
  await acquire('cd')
  await put({ mode_conflict: 'join' })
  await acquire('ef')
  expect((await rows()).map(({ sessions }: { sessions: number }) => sessions)).toEqual([2, 1])
})
