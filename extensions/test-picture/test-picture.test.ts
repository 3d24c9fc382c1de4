// The test picture through the real pool: any mode, nothing listed, gone with its extension.
import { DisplayPool } from 'svc-host/api/displays'
import { startHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'

const mode = { width: 1280, height: 720, hz: 60 }
let host: Awaited<ReturnType<typeof startHost>> | undefined
afterEach(async () => {
  await host?.stop()
  host = undefined
})

test('SVC_SOURCE=software gives the test picture, and no X server is asked for', async () => {
  host = await startHost({ extensions: ['displays', 'test-picture'], env: { SVC_SOURCE: 'software' } })
  const pool = host.service(DisplayPool)!
  const lease = await pool.acquire({ mode, plane: 'native', fingerprint: null, client: 'x' })
  expect([lease.picture, await lease.resize({ ...mode, width: 640 })]).toEqual([
    { kind: 'test' },
    { kind: 'test' },
  ])
  expect((await host.inject('GET', '/display/state')).json).toEqual({ displays: [] })
  await host.extensions.enable('test-picture', false)
  await lease.lost
  await expect(pool.acquire({ mode, plane: 'native', fingerprint: null, client: 'x' })).rejects.toThrow(
    'SVC_SOURCE asks for the test picture, but no extension that is on offers',
  )
})

test('without being asked for by name it is never taken', async () => {
  host = await startHost({ extensions: ['displays', 'test-picture'] })
  const acquired = host
    .service(DisplayPool)!
    .acquire({ mode, plane: 'native', fingerprint: null, client: 'x' })
  await expect(acquired).rejects.toThrow('no display can be made: no extension that makes displays is on')
})
