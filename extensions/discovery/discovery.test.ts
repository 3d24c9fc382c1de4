// Discovery: health for everyone, and a document that follows the live routes without being made for each caller.
import { PassThrough } from 'node:stream'
import { HostInfo, route } from 'svc-host/sdk'
import { startHost } from 'svc-host/testing'
import { expect, test } from 'vitest'
import openapi from './command.ts'
import { createApiDocument } from './document.ts'

const health = () => route({ method: 'GET', path: '/health', summary: '', lanes: 'open', handler: () => '' })

test('the document is made anew when a route came, went or was replaced, and only then', () => {
  const url = '/api/v1/health'
  let live = [{ owner: 'a', url, route: health() }]
  let made = 0
  const document = createApiDocument({ list: () => [...live] }, () => ({ made: ++made }))

  expect([document(), document()]).toEqual(['{"made":1}', '{"made":1}'])
  live = [...live, { owner: 'b', url, route: health() }]
  expect([document(), document()]).toEqual(['{"made":2}', '{"made":2}'])
  live = live.slice(1)
  expect(document()).toBe('{"made":3}')
  // The same path from a restarted owner is another route: its schemas may be others.
  live = [{ owner: 'b', url, route: health() }]
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

test('the reference page and all that it loads come from this host, under a strict policy', async () => {
  const host = await startHost({ extensions: ['discovery'] })
  try {
    const get = (path: string) => host.inject('GET', `/${path}`, { token: null })
    const page = await get('/api/docs')
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    const policy = page.headers['content-security-policy'] as string
    expect(policy).toMatch(/^default-src 'none'; /)
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    // No script in the page itself, and nothing by an address of another host.
    expect(page.text).not.toMatch(/<script>|<style|\/\/[a-z]/i)
    const loaded = [...page.text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(match => match[1]!)
    expect(loaded).toHaveLength(4)
    for (const path of loaded) {
      const { status, headers, text } = await get(path)
      expect([path, status]).toEqual([path, 200])
      expect(headers['x-content-type-options'] ?? 'json').toMatch(/nosniff|json/)
      expect(text.length).toBeGreaterThan(100)
    }
    expect(Object.keys((await get('/api/v1/openapi.json')).json.paths)).not.toContain('/api/docs')
  } finally {
    await host.stop()
  }
})

test('the command prints the document of the release without a host, and says so when it is misused', async () => {
  const run = async (...argv: string[]) => {
    const out = new PassThrough()
    const err = new PassThrough()
    const code = await openapi.run({
      argv,
      out,
      err,
      configDir: '/nowhere',
      version: '9.8.7',
      signal: new AbortController().signal,
      connect: () => Promise.reject(new Error('no host runs')),
      examine: () => Promise.reject(new Error('nothing to look into')),
      jailed: () => Promise.reject(new Error('nothing to run')),
    })
    return { code, out: String(out.read() ?? ''), err: String(err.read() ?? '') }
  }
  const printed = await run()
  const document = JSON.parse(printed.out)
  expect([printed.code, document.openapi, document.info.version]).toEqual([0, '3.1.0', '9.8.7'])
  expect(document.paths['/api/v1/health'].get.operationId).toBe('getHealth')
  expect(await run('--bogus')).toMatchObject({ code: 2, out: '', err: expect.stringContaining('--bogus') })
  await expect(run('--live')).rejects.toThrow('no host runs')
})
