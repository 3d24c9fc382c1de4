// `svc-host plugins doctor` and `logs`: what is broken is found, named and told what to do about it, with and without a host.
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { defineExtension } from 'svc-host/sdk'
import { type InlineExtension, startHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { run } from '../../kernel/cli.ts'
import { sealOf } from '../../kernel/examine.ts'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { writePackage } from '../../test/harness/packages.ts'
import type { Finding } from './doctor.ts'

let configDir: string
beforeEach(() => {
  configDir = mkdtempSync(join(tmpdir(), 'svc-doctor-'))
})
afterEach(() => rmSync(configDir, { recursive: true }))

const type = (...argv: string[]) => typeAt(configDir, 'plugins', ...argv)
const at = (...path: string[]): string => join(configDir, ...path)

/** Installs packages as a finished installation leaves them. */
async function install(...folders: [id: string, folder: string][]): Promise<void> {
  const ledger: Record<string, Record<string, unknown>> = { dependencies: {}, seals: {}, packages: {} }
  for (const [id, folder] of folders) {
    const target = at('plugins/.versions', id, '1.0.0')
    cpSync(folder, target, { recursive: true })
    const pkg = `svc-plugin-${id}`
    ledger['dependencies']![pkg] = '1.0.0'
    ledger['seals']![pkg] = { '1.0.0': await sealOf(target) }
    ledger['packages']![pkg] = { id, tier: 'cli', installedAt: 1 }
  }
  writeFileSync(at('plugins/package.json'), JSON.stringify(ledger))
}
async function doctor(...argv: string[]): Promise<{ code: number; findings: Finding[] }> {
  const { code, out } = await type('doctor', '--json', ...argv)
  return { code, findings: JSON.parse(out).data.findings }
}
const told = (findings: readonly Finding[]): string[] =>
  findings
    .filter(({ level }) => level !== 'ok' && level !== 'skipped')
    .map(({ level, check, id, what, remedy }) => `${level} ${check} ${id ?? ''}: ${what} → ${remedy}`)

test('without a host, the folder says what is wrong with it', async () => {
  expect((await doctor()).code).toBe(0)
  const shop = at('shop')
  await install(
    ['good', writePackage(shop, 'good')],
    ['changed', writePackage(shop, 'changed')],
    ['gone', writePackage(shop, 'gone')],
    ['newer', writePackage(shop, 'newer', { manifest: { sdk: '^9.0.0' } })],
    ['garbled', writePackage(shop, 'garbled', { manifest: { permissions: ['fly:high'] } })],
  )
  expect(told((await doctor('good')).findings)).toEqual([])
  writeFileSync(at('plugins/.versions/changed/1.0.0/index.js'), '// somebody was here')
  rmSync(at('plugins/.versions/gone'), { recursive: true })
  mkdirSync(at('plugins/.versions/good/0.9.0'))
  mkdirSync(at('scripts'))
  writeFileSync(at('scripts/lamp.js'), '')
  chmodSync(at('scripts/lamp.js'), 0o666)
  writeFileSync(at('mgmt-token'), 'SVC_MGMT_TOKEN=0\n', { mode: 0o644 })
  mkdirSync(at('extension-config'))
  writeFileSync(at('extension-config/good.json'), '{')
  const kept = { op: 'do', id: 1, owner: 'good', kind: 'lamp', record: {} }
  writeFileSync(at('journal'), `00000000 ${JSON.stringify(kept)}\n`)
  const { code, findings } = await doctor()
  expect(code).toBe(1)
  expect(told(findings)).toEqual(
    [
      /^error versions gone: svc-plugin-gone 1\.0\.0 is in the ledger, but not in .* → svc-host plugins remove gone/,
      /^error seals changed: its files in .* are not those that were installed → svc-host plugins remove changed/,
      /^error manifests newer: needs sdk \^9\.0\.0, but this host has .* → svc-host plugins update newer/,
      /^error manifests garbled: .*fly/,
      /^warning leftovers : .*good\/0\.9\.0 is in no ledger/,
      /^error settings : .*good\.json cannot be used: .*JSON.* → mend it/,
      /^error secrets : .*mgmt-token can be read or changed by others → chmod 600 /,
      /^error unit files : .*lamp\.js can be changed by everybody, and is not run → chmod o-w /,
      /^warning journal good: lamp of it is in force, though no host runs/,
    ].map(pattern => expect.stringMatching(pattern)),
  )
  expect(findings[0]).toMatchObject({ check: 'host', level: 'skipped' })
  expect(told((await doctor('changed')).findings).filter(each => each.includes('gone'))).toEqual([])

  writeFileSync(at('plugins/package.json'), '{"dependencies": ')
  expect(told((await doctor()).findings)[0]).toMatch(
    /^error ledger : the ledger plugins\/package\.json cannot be read/,
  )
  const { out } = await type('doctor')
  expect(out).toMatch(/^error {4}ledger {6}the ledger .*\n\n?/m)
  expect(out).toMatch(/\n\d+ errors, 1 warning\.\n$/)
})

const broken: InlineExtension = {
  manifest: { id: 'broken' },
  extension: defineExtension({
    config: z.object({ port: z.int().default(1) }),
    setup() {
      throw new Error('no bulb')
    },
  }),
}
const chatty: InlineExtension = {
  manifest: { id: 'chatty' },
  extension: defineExtension({
    setup(ctx) {
      ctx.log.warn('dim \u001b[31m light')
      let count = 0
      const timer = setInterval(() => {
        count += 1
        ctx.log.info(`tick ${count}`)
      }, 20)
      ctx.effect('ticking', () => () => clearInterval(timer))
    },
  }),
}
const lamp = `
import { defineExtension, event } from 'svc-host/sdk'
import { z } from 'zod'
export default defineExtension({ setup(ctx) {
  try { ctx.on(event('session.started', z.object({})), () => {}) } catch (error) { ctx.log.warn(error.message) }
} })`

test('a running host says how its extensions fare, what they wait for and what they lack', async () => {
  const manifest = { permissions: ['events:session.*'] }
  await install(['lamp', writePackage(at('shop'), 'lamp', { realm: 'isolate', main: lamp, manifest })])
  const extensions = ['plugins', 'logs', broken, chatty]
  const host = await startHost({ extensions, configDir, config: { chatty: { brightness: 1 } } })
  try {
    const first = told((await doctor()).findings)
    expect(first).toContainEqual(
      expect.stringMatching(
        /^error states broken: is failed: setup failed: no bulb → svc-host plugins logs broken; /,
      ),
    )
    expect(first).toContainEqual(
      expect.stringMatching(
        /^warning states lamp: is waiting: asks for events:session.* → svc-host plugins grant lamp$/,
      ),
    )
    expect(first).toContainEqual(expect.stringMatching(/^warning configs chatty: nobody reads brightness/))
    await host.extensions.permit('lamp', { refused: ['events:session.*'] })
    expect(told((await doctor('lamp')).findings)).toContainEqual(
      expect.stringMatching(/^warning permissions lamp: has lately missed events:session\.started → /),
    )
    const { findings } = await doctor('lamp')
    expect(findings.every(({ id, level }) => id === 'lamp' || level === 'skipped')).toBe(true)
    expect(await type('doctor', 'nobody')).toMatchObject({ code: 2, out: '' })
  } finally {
    await host.stop()
  }
}, 60_000)

test('the log of one: the newest lines, what is grave, and what comes, through a restart of the host', async () => {
  let host = await startHost({ extensions: ['plugins', 'logs', broken, chatty], configDir })
  try {
    expect((await type('logs', 'broken')).out).toMatch(
      / ERROR \[broken\] setup: no bulb.*\n {4}Error: no bulb\n {8}at /,
    )
    expect((await type('logs', 'chatty', '--level', 'warn')).out).toMatch(/ WARN {2}dim \[31m light\n$/)
    const newest = JSON.parse((await type('logs', 'chatty', '-n', '2', '--json')).out).data.entries
    expect(newest).toHaveLength(2)
    expect(await type('logs', 'chatty', '--level', 'loud')).toMatchObject({ code: 2 })
    expect(await type('logs', 'nobody')).toMatchObject({ code: 2 })
    const followed = follow('chatty')
    await expect.poll(() => followed.ticks().length).toBeGreaterThan(4)
    const ticks = followed.ticks()
    expect(ticks.slice(1).map((tick, i) => tick - ticks[i]!)).toEqual(ticks.slice(1).map(() => 1))
    await host.stop()
    host = await startHost({ extensions: ['plugins', 'logs', chatty], configDir })
    // The first line of another life of the host.
    await expect.poll(followed.text, { timeout: 10_000 }).toContain('dim')
    expect(await followed.end()).toBe(0)
  } finally {
    await host.stop()
  }
})

/** Follows a log from now on. */
function follow(id: string) {
  const ended = new AbortController()
  let text = ''
  const out = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  const err = new Writable({ write: (_chunk, _encoding, done) => done() })
  const around = { out, err, env: { SVC_CONFIG_DIR: configDir }, signal: ended.signal }
  const code = run(['plugins', 'logs', id, '-f', '-n', '0'], around)
  return {
    text: () => text,
    ticks: () => [...text.matchAll(/tick (\d+)\n/g)].map(([, tick]) => Number(tick)),
    end(): Promise<number> {
      ended.abort()
      return code
    },
  }
}
