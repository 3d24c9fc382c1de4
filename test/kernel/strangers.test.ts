// Installed packages from one start of the host to the next: safe mode leaves them out, and whoever fails every time is given up.
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Host, startHost } from '../../kernel/index.ts'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
let configDir: string
const lines: string[] = []
beforeAll(async () => {
  configDir = await mkdtemp(join(tmpdir(), 'svc-strangers-'))
  const plugins = join(configDir, 'plugins')
  const setups = {
    steady: "ctx.log.info('steady is here')",
    hopeless: "ctx.log.info('hopeless tries'); throw new Error('no hope')",
  }
  for (const [id, body] of Object.entries(setups)) {
    const folder = await guests.setup(id, body, { permissions: [] })
    await cp(folder, join(plugins, '.versions', id, '1.0.0'), { recursive: true })
  }
  await mkdir(plugins, { recursive: true })
  const dependencies = { 'svc-plugin-steady': '1.0.0', 'svc-plugin-hopeless': '1.0.0' }
  await writeFile(join(plugins, 'package.json'), JSON.stringify({ dependencies }))
})
afterAll(async () => {
  await guests.remove()
  await rm(configDir, { recursive: true })
})

const during = async <T>(safe: boolean, look: (host: Host) => Promise<T> | T): Promise<T> => {
  lines.length = 0
  const host = await startHost({
    configDir,
    safe,
    found: [],
    flags: { 'mgmt-bind': '127.0.0.1:0' },
    env: {},
    sink: { write: line => void lines.push(JSON.parse(line).msg) },
    isEmbedded: true,
  })
  try {
    return await look(host)
  } finally {
    await host.stop()
  }
}
const states = ({ extensions }: Host) =>
  Object.fromEntries(extensions.list().map(({ id, state, why }) => [id, [state, why]]))

test('a safe start leaves strangers out; three failed starts in a row give one up, and the host comes up regardless', {
  timeout: 60_000,
}, async () => {
  const failed = { hopeless: ['failed', 'setup failed: no hope'], steady: ['on', null] }
  expect(await during(false, states)).toEqual(failed)
  expect(await during(true, states)).toEqual({})
  expect(lines.filter(line => /steady|hopeless/.test(line))).toEqual([])
  expect(await during(false, states)).toEqual(failed)
  expect(await during(false, states)).toMatchObject({
    steady: ['on', null],
    hopeless: ['quarantined', expect.anything()],
  })
  const given = await during(false, async host => {
    const before = states(host)
    expect(lines).toContain('steady is here')
    expect(lines).not.toContain('hopeless tries')
    await host.extensions.enable('hopeless', true)
    return { before, after: states(host) }
  })
  expect(given.before).toEqual({
    steady: ['on', null],
    hopeless: ['quarantined', 'failed 3 starts in a row; switch it on to try again'],
  })
  // Switched on, it gets three more.
  expect(given.after).toEqual(failed)
})
