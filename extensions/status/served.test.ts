// Host info, status and summary as a running host serves them: lanes, taps of others, and an id that stays.
import { mkdtemp, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostCollect, statusCollect, summaryCollect } from 'svc-host/api/status'
import { defineExtension, HostInfo } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, expect, test } from 'vitest'

const hosts: TestHost[] = []
const boot = async (options: Parameters<typeof startHost>[0]): Promise<TestHost> => {
  const host = await startHost(options)
  hosts.push(host)
  return host
}
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.stop()
})

/** Fills in some fields well, one wrongly, and throws in one point. */
const feature: InlineExtension = {
  manifest: { id: 'feature' },
  extension: defineExtension({
    setup(ctx) {
      ctx.tap(hostCollect, facts => ({
        ...facts,
        codecs: [...facts.codecs, 'av1', 'h264'],
        ports: { ...facts.ports, native: 9777 },
      }))
      ctx.tap(statusCollect, record => ({ ...record, native_paired_clients: 2, active_sessions: 1.5 }))
      ctx.tap(summaryCollect, () => {
        throw new Error('no summary today')
      })
    },
  }),
}

test('host info says who this is, with what others add', async () => {
  const host = await boot({ extensions: ['status', feature] })
  const { status, json } = await host.inject('GET', '/host')
  expect(status).toBe(200)
  expect(json).toMatchObject({
    hostname: hostname(),
    uniqueid: expect.stringMatching(/^[0-9A-F]{16}$/),
    local_ip: expect.stringMatching(/^\d+\.\d+\.\d+\.\d+$/),
    version: host.service(HostInfo)!.version,
    abi_version: 1,
    os: expect.stringMatching(/^linux(\/|$)/),
    codecs: ['h264', 'av1'],
    compat: false,
    fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
    ports: {
      mgmt: host.port,
      http: 47989,
      https: 47984,
      rtsp: 48010,
      video: 47998,
      control: 47999,
      audio: 48000,
      native: 9777,
    },
  })
})

test('who may ask: the summary this machine without a credential, the rest not', async () => {
  const host = await boot({ extensions: ['status'] })
  const ask = async (path: string) => (await host.inject('GET', path, { token: null })).status
  expect([await ask('/local/summary'), await ask('/host'), await ask('/status')]).toEqual([200, 401, 401])
})

test('a tap that throws or gets a field wrong costs that, and is said; the answer stands', async () => {
  const host = await boot({ extensions: ['status', feature] })
  expect((await host.inject('GET', '/status')).json).toMatchObject({
    native_paired_clients: 2,
    active_sessions: 0,
  })
  const summary = (await host.inject('GET', '/local/summary')).json
  expect(summary).toMatchObject({ paired_clients: 0, conflicts: [], client_name: null })
  expect(summary).not.toHaveProperty('session')
  const said = host.logs.map(({ extension, msg }) => `${extension}: ${msg}`)
  expect(said).toContainEqual(expect.stringMatching(/^status: .*"active_sessions"/))
  expect(said).toContainEqual(expect.stringMatching(/^feature: .*summary\.collect.*no summary today/))

  await host.extensions.enable('feature', false)
  expect((await host.inject('GET', '/status')).json).toMatchObject({ native_paired_clients: 0 })
})

test('the id is the same after a restart; the name is the operator’s when set', async () => {
  const configDir = await mkdtemp(join(tmpdir(), 'svc-host-id-'))
  try {
    const first = await boot({ extensions: ['status'], configDir })
    const { uniqueid } = (await first.inject('GET', '/host')).json
    await first.stop()
    const second = await boot({ extensions: ['status'], configDir, env: { SVC_HOST_NAME: 'Attic' } })
    expect((await second.inject('GET', '/host')).json).toMatchObject({ uniqueid, hostname: 'Attic' })
  } finally {
    for (const host of hosts.splice(0)) await host.stop()
    await rm(configDir, { recursive: true })
  }
})

test('host.started says whether the compatible plane is served', async () => {
  const host = await boot({ extensions: ['status'] })
  expect(host.events().find(({ kind }) => kind === 'host.started')).toMatchObject({ compat: false })
})
