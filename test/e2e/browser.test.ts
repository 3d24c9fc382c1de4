// A page in a real browser, from another origin: it pairs a key of its own, reads what devices may, and nothing else.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Browser, chromium, type Page } from 'playwright-core'
import { PairingWindow } from 'svc-host/api/pairing'
import { CertificateIdentity, defineExtension } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { build, type Rolldown } from 'vite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type * as Client from '../../sdk/client/browser.ts'

type Library = typeof Client
declare global {
  var svc: Library
  var key: Client.DeviceKey
}

/** The client library as an application's bundler makes it. */
async function bundle(): Promise<string> {
  const entry = 'sdk/client/browser.ts'
  const built = await build({
    configFile: false,
    logLevel: 'silent',
    resolve: { conditions: ['svc-source', 'browser', 'import', 'default'] },
    build: { write: false, minify: false, lib: { entry, formats: ['es'], fileName: 'client' } },
  })
  const [{ output }] = built as [Rolldown.RolldownOutput]
  return output[0].code
}

const plane: InlineExtension = {
  manifest: { id: 'plane', requires: { 'pairing.window': '^1.0.0' } },
  extension: defineExtension({
    deps: { pairing: PairingWindow },
    setup: (ctx, { pairing }) => ctx.effect('serve', () => pairing.serve()),
  }),
}

let host: TestHost
let browser: Browser
let page: Page
let hostFingerprint: string
const site = createServer()

beforeAll(async () => {
  const code = await bundle()
  site.on('request', ({ url }, answer) => {
    const isScript = url === '/client.js'
    answer.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    answer.end(isScript ? code : '<script type="module">globalThis.svc = await import("/client.js")</script>')
  })
  await new Promise<void>(done => site.listen(0, '127.0.0.1', done))
  const origin = `http://localhost:${(site.address() as AddressInfo).port}`
  host = await startHost({
    extensions: ['status', 'pairing', 'device-keys', 'events', 'logs', 'displays', 'sessions', plane],
    env: { SVC_BROWSER_ORIGINS: origin, SVC_SOURCE: 'software' },
  })
  hostFingerprint = host.service(CertificateIdentity)!.fingerprint
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync']
  args.push('--disable-background-networking', '--disable-component-update')
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
  page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  await page.goto(origin)
  await page.waitForFunction(() => globalThis.svc !== undefined)
})
afterAll(async () => {
  await browser?.close()
  await host?.stop()
  site.close()
})

/** Runs a call in the page; what it rejects with comes back as its code and status. */
const call = (method: string, path: string): Promise<unknown> =>
  page.evaluate(
    async ([method, path, url, hostFingerprint]) => {
      const api = svc.openApi({ url, key, hostFingerprint })
      return api.request(method, path).catch((error: Client.ApiError) => [error.code, error.status])
    },
    [method, path, `https://127.0.0.1:${host.port}`, hostFingerprint] as const,
  )

test('a page pairs its key, reads what the device lane gives, and is refused everything else', async () => {
  const isSecret = await page.evaluate(async () => {
    globalThis.key = await svc.createDeviceKey()
    return !key.privateKey.extractable
  })
  expect(isSecret).toBe(true)
  expect(await call('GET', '/status')).toEqual(['unauthorized', 401])
  await page.evaluate(
    ([url, hostFingerprint]) => svc.knock({ url, key, hostFingerprint }, 'Tab on the sofa'),
    [`https://127.0.0.1:${host.port}`, hostFingerprint] as const,
  )
  expect(await call('GET', '/status')).toEqual(['unauthorized', 401])
  const [row] = (await host.inject('GET', '/native/pending')).json
  expect(row).toMatchObject({ name: 'Tab on the sofa', source: 'lan' })
  await host.inject('POST', `/native/pending/${row.id}/approve`, { body: { grants: 0 } })

  expect(await call('GET', '/status')).toMatchObject({ active_sessions: 0 })
  expect(await call('GET', '/host')).toMatchObject({ fingerprint: hostFingerprint })
  const others = [
    '/logs',
    '/events',
    '/native/clients',
    '/extensions',
    '/display/settings',
    '/session/settings',
  ]
  for (const path of others) expect([path, await call('GET', path)]).toEqual([path, ['unauthorized', 401]])
  expect(await call('POST', '/native/pair/arm')).toEqual(['unauthorized', 401])

  await host.inject('DELETE', `/native/clients/${row.fingerprint}`)
  expect(await call('GET', '/status')).toEqual(['unauthorized', 401])
})

test('a page of another origin reaches nothing, paired or not', async () => {
  const stranger = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  await stranger.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}`)
  const reached = await stranger.evaluate(
    async url =>
      fetch(`${url}/api/v1/health`).then(
        ({ status }) => status,
        () => 'blocked',
      ),
    `https://127.0.0.1:${host.port}`,
  )
  expect(reached).toBe('blocked')
})
