// A host whose engine is not built: the extension says what to run, and what needs it says for what it waits.
import { defineExtension } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'
import { MediaEngine } from './api.ts'

afterEach(() => {
  delete process.env['SVC_ENGINE']
})

test('without its addon it fails with a sentence that says what to run', async () => {
  // Names a build that is not there; the engine is loaded once for each process, and this file has its own.
  process.env['SVC_ENGINE'] = 'absent'
  const plane = {
    manifest: { id: 'plane', requires: { 'media.engine': '^1.0.0' } },
    extension: defineExtension({ deps: { engine: MediaEngine }, setup: () => {} }),
  }
  const host = await startHost({ extensions: ['status', 'media', plane] })
  try {
    const states = Object.fromEntries(host.extensions.list().map(({ id, state, why }) => [id, [state, why]]))
    expect(states['media']).toEqual(['failed', expect.stringContaining('svc-host setup')])
    expect(states['plane']).toEqual(['waiting', expect.stringContaining('media.engine')])
    expect((await host.inject('GET', '/host')).json.codecs).toEqual([])
  } finally {
    await host.stop()
  }
})
