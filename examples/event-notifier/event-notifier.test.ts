// The notifier in each realm it runs in, posting to a real server: what arrives, what is tried again, and where it may go.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { defineExtension, event } from 'svc-host/sdk'
import { type InlineExtension, startHost } from 'svc-host/testing'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { notice } from './notice.ts'

// A process takes its time to start where many want to.
vi.setConfig({ testTimeout: 60_000 })

const folder = fileURLToPath(new URL('.', import.meta.url))
const Played = event('game.played', z.object({ title: z.string(), player: z.object({ name: z.string() }) }))
const game: InlineExtension = { manifest: { id: 'game' }, extension: defineExtension({ setup() {} }) }

let got: { text?: string; event?: { title: string } }[] = []
let failures = 0
let url: string
const server = createServer(async (request, response) => {
  const body = (await json(request)) as (typeof got)[number]
  if (failures > 0) failures -= 1
  else got.push(body)
  response.writeHead(failures > 0 || got.at(-1) !== body ? 500 : 204).end()
})
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://localhost:${(server.address() as AddressInfo).port}/hook?key=1`
})
afterAll(() => void server.close())
beforeEach(() => {
  got = []
  failures = 0
})

const start = (realm: 'kernel' | 'isolate' | 'process', more: object = {}) =>
  startHost({
    extensions: [game, folder],
    mayBeOff: true,
    realm,
    config: {
      'event-notifier': {
        url,
        kinds: ['game.played'],
        template: '{player.name} played {title}',
        retryMs: 20,
        ...more,
      },
    },
  })
const play = (title: string) => ({ title, player: { name: 'Ann' } })

test.for(['kernel', 'isolate', 'process'] as const)(
  'tells in order, and again what was not taken: %s',
  async realm => {
    const host = await start(realm)
    try {
      failures = 2
      for (const title of ['Chess', 'Go', 'Ludo']) host.emit(Played, play(title))
      await expect
        .poll(() => got.map(({ text }) => text))
        .toEqual(['Chess', 'Go', 'Ludo'].map(t => `Ann played ${t}`))
      expect(got[0]!.event).toMatchObject({ kind: 'game.played', title: 'Chess' })
      const tried = host.logs.filter(({ msg }) => msg.includes('it answered 500'))
      expect(tried).toHaveLength(2)
      await host.extensions.enable('event-notifier', false)
      host.emit(Played, play('Chess'))
      await host.extensions.enable('event-notifier', true)
      host.emit(Played, play('Go'))
      await expect.poll(() => got.length).toBe(4)
      expect(got[3]!.text).toBe('Ann played Go')
    } finally {
      await host.stop()
    }
  },
)

test('may reach what its config names, and nothing else', async () => {
  const host = await start('isolate', { url: 'http://localhost:1/' })
  try {
    const refused = () => host.logs.filter(({ msg }) => msg.includes('ECONNREFUSED'))
    host.emit(Played, play('Chess'))
    await expect.poll(() => refused().length).toBeGreaterThan(0)
    // The config is the operator's word: with another address there comes another right.
    const configured = await host.extensions.configure('event-notifier', ({ stored }) => ({ ...stored, url }))
    expect(configured.state).toBe('on')
    host.emit(Played, play('Go'))
    await expect.poll(() => got.map(({ text }) => text)).toEqual(['Ann played Go'])
  } finally {
    await host.stop()
  }
})

test('without an address it says so, and a bad one is refused', async () => {
  const host = await start('isolate', { url: undefined })
  expect(host.logs.map(({ msg }) => msg).join()).toContain('it has no url')
  await host.stop()
  const other = await start('isolate', { url: 'file:///etc/passwd' })
  const { state, why } = other.extensions.list().find(({ id }) => id === 'event-notifier')!
  await other.stop()
  expect([state, why]).toEqual(['failed', expect.stringContaining('url: Invalid')])
})

test('a text has what the event holds, and nothing of what it does not', () => {
  const about = { seq: 1, ts_ms: 2, schema: 1, kind: 'a.b', list: [1, { x: 'y' }], inner: { a: null } }
  expect(
    notice('{kind} {seq} {inner} {inner.a} {list.1.x} {none} {none.of} {__proto__.x} { kind }', about),
  ).toBe('a.b 1 {"a":null} null y    { kind }')
})
