// Built as its author builds it, then loaded as a stranger's: native code behind walls.
import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir, totalmem, uptime } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startHost } from 'svc-host/testing'
import { expect, test } from 'vitest'

const run = promisify(execFile)

/** Where Node's headers lie, as npm is configured; without that node-gyp fetches them. */
async function headers(): Promise<string[]> {
  const { stdout } = await run('npm', ['config', 'get', 'nodedir'])
  const folder = process.env['npm_config_nodedir'] ?? stdout.trim()
  return folder && folder !== 'undefined' ? [`--nodedir=${folder}`] : []
}

test('reads the load with native code in a process of its own', { timeout: 120_000 }, async () => {
  const home = await mkdtemp(join(tmpdir(), 'svc-native-addon-'))
  const folder = join(home, 'native-addon')
  await cp(fileURLToPath(new URL('.', import.meta.url)), folder, { recursive: true })
  const gyp = join(createRequire(import.meta.url).resolve('node-gyp/package.json'), '../bin/node-gyp.js')
  try {
    await run(process.execPath, [gyp, 'rebuild', ...(await headers())], { cwd: folder })
    const host = await startHost([folder])
    try {
      const { status, json } = await host.inject('GET', '/ext/native-addon/load')
      expect(status).toBe(200)
      expect(json.perCore).toBeGreaterThanOrEqual(0)
      expect(json.freeBytes).toBeGreaterThan(0)
      expect(json.totalBytes).toBe(totalmem())
      expect(Math.abs(json.uptimeSeconds - uptime())).toBeLessThan(30)
      expect(host.extensions.list().find(({ id }) => id === 'native-addon')).toMatchObject({
        realm: 'process',
        state: 'on',
        effects: ['process', 'timers', 'route GET /ext/native-addon/load'],
      })
    } finally {
      await host.stop()
    }
  } finally {
    await rm(home, { recursive: true })
  }
})
