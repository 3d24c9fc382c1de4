// The example in each realm it runs in: the same answers, and the same refusals.
import { fileURLToPath } from 'node:url'
import { startHost } from 'svc-host/testing'
import { expect, test, vi } from 'vitest'

// A process takes its time to start where many want to.
vi.setConfig({ testTimeout: 60_000 })

const folder = fileURLToPath(new URL('.', import.meta.url))

test.for(['kernel', 'isolate', 'process'] as const)(
  'greets, checks what it is given, and leaves: %s',
  async realm => {
    const config = { 'hello-route': { greeting: 'Good day' } }
    const host = await startHost({ extensions: [folder], realm, config })
    try {
      const ask = (rest: string) => host.inject('GET', `/ext/hello-route/greetings/${rest}`)
      expect((await ask('Ann?times=2')).json).toEqual({ text: 'Good day, Ann! Good day, Ann!' })
      expect(await ask('Ann?times=4')).toMatchObject({
        status: 400,
        json: { error: 'times: Too big: expected number to be <=3' },
      })
      expect((await host.inject('GET', '/ext/hello-route/greetings/Ann', { token: null })).status).toBe(401)
      await host.extensions.enable('hello-route', false)
      expect((await ask('Ann')).status).toBe(404)
      await host.extensions.enable('hello-route', true)
      expect((await ask('Ann')).json).toEqual({ text: 'Good day, Ann!' })
    } finally {
      await host.stop()
    }
  },
)
