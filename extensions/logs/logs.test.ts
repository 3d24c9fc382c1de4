// Logs: pages, cursors and eviction over a real host, at a level that the host itself does not print.
import { defineExtension, type Log } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LogEntry, LogPage } from './api.ts'

let host: TestHost
let log: Log
beforeAll(async () => {
  const chatty = defineExtension({
    setup(ctx) {
      log = ctx.log
    },
  })
  host = await startHost({
    extensions: ['logs', { manifest: { id: 'chatty' }, extension: chatty }],
    env: { SVC_LOG: 'error' },
  })
})
afterAll(() => host.stop())

const page = async (query = ''): Promise<LogPage> => (await host.inject('GET', `/logs${query}`)).json
/** The cursor of whoever has read everything. */
const tail = async (): Promise<number> => {
  let { next, entries } = await page()
  while (entries.length > 0) ({ next, entries } = await page(`?after=${next}`))
  return next
}
/** Writes, and gives what was written since as the API shows it. */
const written = async (write: () => void): Promise<LogEntry[]> => {
  const next = await tail()
  write()
  return (await page(`?after=${next}`)).entries
}

test('what was logged before the extension started is there, below the level that is printed', async () => {
  const { entries, dropped } = await page()
  expect(entries[0]!.seq).toBe(1)
  expect(dropped).toBe(false)
  expect(entries.some(({ target, msg }) => target === 'kernel' && msg.includes('is ready on port'))).toBe(
    true,
  )
  expect(host.logs).toEqual([])
})

test('an entry tells level, owner, text and fields; secrets are masked', async () => {
  const before = Date.now()
  const [fields, failed, ...rest] = await written(() => {
    log.debug('looked', { port: 7, where: 'a b', token: 'hunter2', inner: { password: 'hunter2' } })
    log.error('fell over', { err: new Error('no disk') })
  })
  expect(fields).toMatchObject({
    level: 'DEBUG',
    target: 'chatty',
    msg: 'looked port=7 where="a b" token="[secret]" inner={"password":"[secret]"}',
  })
  expect(fields!.ts_ms).toBeGreaterThanOrEqual(before)
  expect(failed).toMatchObject({ level: 'ERROR', seq: fields!.seq + 1 })
  expect(failed!.msg).toMatch(/^fell over\nError: no disk\n +at /)
  expect(rest).toEqual([])
  expect(host.logs.map(({ msg }) => msg)).toEqual(['fell over'])
})

test('cursors page through without a gap, and limits are lowered to what is served', async () => {
  const next = await tail()
  for (let i = 0; i < 1500; i++) log.debug(`line ${i}`)
  const first = await page(`?after=${next}&limit=5000`)
  expect(first.entries.map(({ msg }) => msg)).toEqual(Array.from({ length: 1000 }, (_, i) => `line ${i}`))
  const second = await page(`?after=${first.next}&limit=0`)
  expect(second.entries.map(({ msg }) => msg)).toEqual(
    Array.from({ length: 500 }, (_, i) => `line ${i + 1000}`),
  )
  expect(second.dropped).toBe(false)
  expect(await page(`?after=${second.next}`)).toEqual({ entries: [], next: second.next, dropped: false })
  expect((await page(`?after=${next}&limit=2`)).entries).toHaveLength(2)
})

test('4096 are kept; a reader whose cursor is older, or of another life of the host, is told', async () => {
  const next = await tail()
  for (let i = 0; i < 4097; i++) log.info(`flood ${i}`)
  const { entries, dropped } = await page(`?after=${next}&limit=1`)
  expect([entries[0]!.msg, dropped]).toEqual(['flood 1', true])
  expect((await page(`?after=${next + 1}&limit=1`)).dropped).toBe(false)
  expect(await page('?after=999999999')).toEqual({ entries: [], next: 999_999_999, dropped: true })
})

test('a cursor or a limit that is no number is refused, and so is everyone but the operator', async () => {
  for (const query of ['?after=x', '?after=-1', '?limit=1.5', '?limit=', '?after=99999999999999999999'])
    expect([query, (await host.inject('GET', `/logs${query}`)).status]).toEqual([query, 400])
  expect((await host.inject('GET', '/logs', { token: null })).status).toBe(401)
})

test('nothing is lost while the extension is off', async () => {
  const next = await tail()
  await host.extensions.enable('logs', false)
  expect((await host.inject('GET', '/logs')).status).toBe(404)
  log.info('meanwhile')
  await host.extensions.enable('logs', true)
  expect((await page(`?after=${next}`)).entries.map(({ msg }) => msg)).toContain('meanwhile')
})
