// Where the plane listens: one number for TCP and UDP, and a sentence when it cannot be had.
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import { startHost, type TestHost } from 'svc-host/testing'
import { expect, test } from 'vitest'
import { NativePlane } from './api.ts'

const extensions = ['status', 'media', 'sessions', 'pairing', 'displays', 'test-picture', 'native-plane']
const hostOn = (port: number): Promise<TestHost> =>
  startHost({ extensions, config: { 'native-plane': { port } }, env: { SVC_SOURCE: 'software' } })
const stateOf = (host: TestHost) => {
  const { state, why } = host.extensions.list().find(({ id }) => id === 'native-plane')!
  return { state, why }
}

test('port 0 takes a number that is free for both, and tells it', async () => {
  const host = await hostOn(0)
  try {
    expect(stateOf(host)).toEqual({ state: 'on', why: null })
    const { port } = host.service(NativePlane)!
    expect(port).toBeGreaterThan(0)
    expect((await host.inject('GET', '/host')).json.ports.native).toBe(port)
    expect((await host.inject('GET', '/native/pair')).json.enabled).toBe(true)
  } finally {
    await host.stop()
  }
})

test('a TCP port that is taken is named, nothing stays open, and it comes up once it is free', async () => {
  const other = createServer()
  await new Promise<void>(resolve => other.listen(0, '::', resolve))
  const { port } = other.address() as { port: number }
  const host = await hostOn(port)
  try {
    const taken = new RegExp(`TCP port ${port} .* in use .*--native-port`)
    expect(stateOf(host)).toEqual({ state: 'failed', why: expect.stringMatching(taken) })
    expect((await host.inject('GET', '/native/pair')).json.enabled).toBe(false)
    await new Promise(resolve => other.close(resolve))
    await host.extensions.enable('native-plane', false)
    await host.extensions.enable('native-plane', true)
    expect(stateOf(host)).toEqual({ state: 'on', why: null })
  } finally {
    await host.stop()
  }
})

test('a UDP port that is taken is named', async () => {
  const other = createSocket('udp6')
  await new Promise<void>(resolve => other.bind(0, '::', resolve))
  const { port } = other.address()
  const host = await hostOn(port)
  try {
    const taken = new RegExp(`UDP port ${port} .* in use .*--native-port`)
    expect(stateOf(host)).toEqual({ state: 'failed', why: expect.stringMatching(taken) })
  } finally {
    other.close()
    await host.stop()
  }
})
