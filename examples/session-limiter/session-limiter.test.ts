// The limiter in each realm it runs in: whom it lets in, whom it refuses, and that it leaves nothing behind.
import { fileURLToPath } from 'node:url'
import { type SessionRequest, sessionAdmit, sessionEnded, sessionStarted } from 'svc-host/api/sessions'
import { defineExtension } from 'svc-host/sdk'
import { type InlineExtension, startHost } from 'svc-host/testing'
import { expect, test, vi } from 'vitest'

// A process takes its time to start where many want to.
vi.setConfig({ testTimeout: 60_000 })

const folder = fileURLToPath(new URL('.', import.meta.url))
let admit: (request: SessionRequest) => Promise<{ readonly refuse: string } | undefined>
/** Stands in for the built-in that asks. */
const asker: InlineExtension = {
  manifest: { id: 'asker' },
  extension: defineExtension({
    setup(ctx) {
      admit = ctx.hookPoint(sessionAdmit) as typeof admit
    },
  }),
}
const request = (fingerprint: string): SessionRequest => ({
  plane: 'native',
  fingerprint,
  client: fingerprint.slice(0, 16),
  name: 'Ann',
  address: undefined,
})
const shape = { codec: 'h264', bit_depth: 8, chroma: '4:2:0', bitrate_kbps: 8000, bringup_ms: 5 }
const session = { id: 7, client: 'ann', fingerprint: 'ann', mode: '1280x720@60', hdr: false, plane: 'native' }
const summary = { ...session, ...shape, started_unix: 1, duration_s: 1, ended: 'local' }

test.for(['kernel', 'isolate', 'process'] as const)('lets in, refuses, lets in again: %s', async realm => {
  const friend = 'f'.repeat(64)
  const config = { 'session-limiter': { maxSessions: 1, alwaysLetIn: [friend.slice(0, 16)] } }
  const host = await startHost({ extensions: [asker, folder], realm, config })
  try {
    expect(await admit(request('a'.repeat(64)))).toBeUndefined()
    host.emit(sessionStarted, { session } as never)
    await expect
      .poll(() => admit(request('a'.repeat(64))))
      .toEqual({
        refuse: '1 sessions run already, and 1 may; try again later',
      })
    expect(await admit(request(friend))).toBeUndefined()
    host.emit(sessionEnded, { session, summary } as never)
    await expect.poll(() => admit(request('a'.repeat(64)))).toBeUndefined()
    host.emit(sessionStarted, { session } as never)
    await host.extensions.enable('session-limiter', false)
    expect(await admit(request('a'.repeat(64)))).toBeUndefined()
  } finally {
    await host.stop()
  }
})

test.for(['kernel', 'isolate', 'process'] as const)(
  'a bad config is refused with its path: %s',
  async realm => {
    const host = await startHost({
      extensions: [folder],
      mayBeOff: true,
      realm,
      config: { 'session-limiter': { maxSessions: 99 } },
    })
    const { state, why } = host.extensions.list().find(({ id }) => id === 'session-limiter')!
    await host.stop()
    expect(state).toBe('failed')
    expect(why).toContain('maxSessions: Too big: expected number to be <=64')
  },
)
