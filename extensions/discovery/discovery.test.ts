// Discovery: health for everyone, and a document that follows the live routes without being made for each caller.
import { route } from 'svc-host/sdk'
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
