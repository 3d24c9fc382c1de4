// Discovery: health for everyone, and a document that follows the live routes without being made for each caller.
import { HostInfo, route } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { expect, test } from 'vitest'
import { createApiDocument } from './document.ts'

const health = () => route({ method: 'GET', path: '/health', summary: '', lanes: 'open', handler: () => '' })

test('the document is made anew when a route came, went or was replaced, and only then', () => {
  let live = [{ owner: 'a', route: health() }]
  let made = 0
  const document = createApiDocument({ list: () => [...live], document: () => ({ made: ++made }) })

  expect([document(), document()]).toEqual(['{"made":1}', '{"made":1}'])
  live = [...live, { owner: 'b', route: health() }]
  expect([document(), document()]).toEqual(['{"made":2}', '{"made":2}'])
  live = live.slice(1)
  expect(document()).toBe('{"made":3}')
  // The same path from a restarted owner is another route: its schemas may be others.
  live = [{ owner: 'b', route: health() }]
  expect(document()).toBe('{"made":4}')
})

test('anyone learns health and the document, which leaves out what is off', async () => {
  const host = await startHost({ extensions: ['discovery', 'events'] })
  try {
    const health = await host.inject('GET', '/health', { token: null })
    expect(health.json).toEqual({ status: 'ok', version: host.service(HostInfo)!.version, abi_version: 1 })

    const paths = async (): Promise<string[]> => {
      const { json, headers } = await host.inject('GET', '/openapi.json', { token: null })
      expect(headers['content-type']).toMatch(/^application\/json/)
      expect(json.openapi).toBe('3.1.0')
      return Object.keys(json.paths)
    }
    expect(await paths()).toEqual(
      expect.arrayContaining(['/api/v1/health', '/api/v1/events', '/api/v1/extensions']),
    )
    expect(await paths()).not.toContain('/api/v1/openapi.json')
    await host.extensions.enable('events', false)
    expect(await paths()).not.toContain('/api/v1/events')
  } finally {
    await host.stop()
  }
})
