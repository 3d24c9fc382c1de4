// A stranger's package, installed in the config folder: it runs with the host's own SDK and zod, and its lines say whose they are.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openApi } from 'svc-host/client'
import { expect, test } from 'vitest'
import { createLog, describeLine } from '../../kernel/log.ts'
import { readAccess } from '../../kernel/tokens.ts'

const main = fileURLToPath(new URL('../../kernel/main.ts', import.meta.url))

test('an installed package that imports the SDK, an api and zod by name serves, through the real command', async () => {
  const configDir = await mkdtemp(join(tmpdir(), 'svc-host-installed-'))
  const folder = join(configDir, 'plugins', '.versions', 'tiny', '1.0.0')
  await mkdir(folder, { recursive: true })
  const manifest = {
    id: 'tiny',
    version: '1.0.0',
    sdk: '^1.0.0',
    title: 'Tiny',
    realm: 'kernel',
    main: 'index.js',
  }
  await writeFile(join(folder, 'extension.json'), JSON.stringify(manifest))
  await writeFile(
    join(folder, 'index.js'),
    `import { defineExtension, route } from 'svc-host/sdk'
import * as api from 'svc-host/api/status'
import { z } from 'zod'
export default defineExtension({
  setup(ctx) {
    ctx.log.info('hello from tiny', { token: 'very secret' })
    ctx.route(route({ method: 'GET', path: '/tiny', summary: 'Tiny', lanes: { plugin: false, device: false },
      replies: { 200: z.object({ names: z.array(z.string()) }) }, handler: () => ({ names: Object.keys(api) }) }))
  },
})`,
  )
  await writeFile(join(configDir, 'plugins', 'package.json'), '{"dependencies": {"tiny": "1.0.0"}}')
  await writeFile(join(configDir, 'extensions.json'), '{"trusted": ["tiny"]}')
  const flags = ['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning']
  const bind = ['--mgmt-bind', '127.0.0.1:0', '--config-dir', configDir]
  const env = { PATH: process.env['PATH'], SVC_SOURCE: 'software', SVC_MDNS: '0' }
  const child = spawn(process.execPath, [...flags, main, 'serve', ...bind, '--native-port', '0'], { env })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += data))
  try {
    await expect.poll(() => output, { timeout: 15_000 }).toContain('is ready on port')
    const client = openApi((await readAccess(configDir))!)
    const { names } = await client.request<{ names: string[] }>('GET', '/tiny')
    expect(names.length).toBeGreaterThan(0)
    client.close()
    expect(output).toMatch(/"extension":"tiny","token":"\[secret\]","msg":"hello from tiny"/)
    expect(output).not.toContain('very secret')
  } finally {
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect((await ended)[0]).toBe(0)
    await rm(configDir, { recursive: true })
  }
  expect(output).toContain('"msg":"stopped"')
})

test('on a terminal a line is text: time, level, extension, message, fields, and the stack of an error', () => {
  const lines: string[] = []
  const log = createLog('debug', { write: line => void lines.push(describeLine(line)) }).logOf('tiny')
  log.warn('look out', { port: 7, inner: { secret: 'x' } })
  log.error('broken', { err: new Error('why') })
  expect(lines[0]).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} WARN {2}tiny: look out port=7 inner=\{"secret":"\[secret\]"\}\n$/,
  )
  expect(lines[1]).toMatch(/ERROR tiny: broken\n {4}Error: why\n {8}at /)
})
