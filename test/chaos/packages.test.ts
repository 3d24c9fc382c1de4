// kill -9 in the middle of installing, updating, going back and removing: the next start finds the state before or the
// one after, never one between, and nothing else.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type HostProcess, serve, until } from '../harness/host.ts'
import { createKilling, operationNames } from '../harness/package-kills.ts'
import { packFolder, writePackage } from '../harness/packages.ts'
import { seeded } from '../soak/random.ts'

const random = seeded(20_261_122)

test.each(operationNames)(
  '%s, killed at five moments by a seed',
  async operation => {
    const killing = await createKilling(operation)
    try {
      for (let round = 0; round < 5; round++)
        expect(['before', 'after']).toContain((await killing.round(random())).found)
    } finally {
      await killing.end()
    }
  },
  // Six starts of a whole host.
  240_000,
)

test('an update that brings the host down with it is gone with the next start', async () => {
  const shop = mkdtempSync(join(tmpdir(), 'svc-chaos-shop-'))
  const configDir = mkdtempSync(join(tmpdir(), 'svc-chaos-packages-'))
  const env = { SVC_SOURCE: 'software', SVC_MDNS: '0' }
  const add = async (host: HostProcess, version: string, setup = ''): Promise<void> => {
    const folder = writePackage(shop, 'tiny', { version, setup, importsSdk: true })
    const file = await packFolder(folder, join(shop, `${version}.tgz`))
    const body = { spec: `file:${file}`, accept_unverified: true, trust: true }
    expect((await host.api('POST', '/store/install', body)).status).toBe(202)
  }
  const answer = async (host: HostProcess) => (await host.api('GET', '/tiny')).body.version
  const first = await serve({ configDir, env })
  let second: HostProcess | undefined
  try {
    await add(first, '1.0.0')
    await until(
      'the plugin',
      async () => (await first.api('GET', '/store/jobs')).body.at(-1).state === 'done',
    )
    expect(await answer(first)).toBe('1.0.0')
    await add(first, '2.0.0', 'process.kill(process.pid, "SIGKILL")')
    await until('the host to be gone', () => first.child.signalCode === 'SIGKILL')
    second = await serve({ configDir, env })
    const next = second
    await until('the plugin', async () => (await answer(next)) === '1.0.0')
    await until(
      'the other version to be gone',
      () => readdirSync(join(configDir, 'plugins/.versions/tiny')).length === 1,
    )
  } finally {
    await first.stop('SIGKILL')
    await second?.stop()
    for (const folder of [shop, configDir]) rmSync(folder, { recursive: true, force: true })
  }
})
