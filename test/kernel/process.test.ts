// Child processes and folders: a made environment, no rights, and nothing left of them when their scope closes.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Context, defineExtension, type ManagedProcess, type ProcessSpec } from 'svc-host/sdk'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { withoutRights } from '../../kernel/confine.ts'
import { undoFolder } from '../../kernel/folder.ts'
import { undoProcess } from '../../kernel/process.ts'
import { carriers, markersIn } from './markers.ts'

let host: TestHost
let ctx: Context
beforeEach(async () => {
  process.env['SVC_TEST_SECRET'] = 'do not inherit'
  const extension = defineExtension({
    setup(given) {
      ctx = given
    },
  })
  host = await startHost({ extensions: [{ manifest: { id: 'runner' }, extension }] })
})
afterEach(async () => {
  delete process.env['SVC_TEST_SECRET']
  await host.stop()
})

const shell = (script: string, more: Partial<ProcessSpec> = {}): Promise<ManagedProcess> =>
  ctx.process('shell', { command: '/bin/sh', args: ['-c', script], output: 'pipe', graceMs: 300, ...more })
const effects = () => host.extensions.list()[0]!.effects
const journal = () => readFile(join(host.configDir, 'journal'), 'utf8')
const isThere = (pid: number): boolean =>
  existsSync(`/proc/${pid}/environ`) && statSync(`/proc/${pid}`).isDirectory()
const isRoot = process.getuid?.() === 0

test('the environment is what was asked for, a path, a language and the marker', async () => {
  const child = await shell('env', { env: { COLOUR: 'blue' } })
  const output = await text(child.stdout!)
  const names = output
    .match(/^[A-Z_]+(?==)/gm)!
    .filter(name => !['PWD', 'SHLVL', '_', 'OLDPWD'].includes(name))
  expect(names.toSorted()).toEqual(['COLOUR', 'LANG', 'PATH', 'SVC_EFFECT_MARKER'])
  expect(await child.exited).toEqual({ code: 0, signal: null })
})

test('recorded before and struck out after; a process that ends by itself leaves no effect', async () => {
  const child = await shell('read line; exit 3')
  expect(effects()).toEqual(['process shell'])
  expect(await journal()).toMatch(
    new RegExp(`"op":"do".*"marker":"[0-9a-f]{32}".*\\n.*"op":"amend".*"pid":${child.pid},"startTime":\\d+`),
  )
  child.stdin!.write('go\n')
  expect(await child.exited).toEqual({ code: 3, signal: null })
  await expect.poll(effects, { timeout: 5000 }).toEqual([])
  await expect.poll(journal, { timeout: 5000 }).toContain('"op":"done"')
})

test('stop ends the group, those who ignore the signal, and those who have left the group', async () => {
  const script =
    "trap '' TERM; sleep 602 & setsid sh -c \"trap '' TERM; sleep 603\" & echo $!; wait; sleep 604"
  const child = await shell(script)
  const [marker = ''] = await markersIn(host.configDir)
  // The shell, its child, the one that left and what that one runs.
  await expect.poll(() => carriers(marker).length, { timeout: 5000 }).toBeGreaterThanOrEqual(4)
  const [once, twice] = [child.stop(), child.stop()]
  await Promise.all([once, twice])
  expect(isThere(child.pid)).toBe(false)
  expect((await child.exited).signal).toBe('SIGKILL')
  expect(carriers(marker)).toEqual([])
  expect(effects()).toEqual([])
})

test('closing the scope ends what runs; a command that is not there is a sentence and leaves no record', async () => {
  const child = await shell('sleep 605')
  await expect(ctx.process('ghost', { command: '/no/such/thing' })).rejects.toThrow(
    'process "ghost" (/no/such/thing) cannot be started: spawn /no/such/thing ENOENT',
  )
  expect(effects()).toEqual(['process shell'])
  await host.extensions.enable('runner', false)
  expect(isThere(child.pid)).toBe(false)
  expect((await journal()).match(/"op":"done"/g)?.length).toBe(2)
})

test('output goes to the log by lines; extra pipes can be read', async () => {
  const child = await ctx.process('talker', { command: '/bin/sh', args: ['-c', 'echo one; printf two >&2'] })
  expect([child.stdin, child.stdout, child.stderr]).toEqual([null, null, null])
  await child.exited
  await expect
    .poll(() =>
      host.logs
        .filter(l => l['process'] === 'talker')
        .map(({ msg }) => msg)
        .sort(),
    )
    .toEqual(['one', 'two'])
  const piped = await shell('printf 42 >&3', { pipes: 1 })
  expect(await text(piped.pipes[0]!)).toBe('42')
})

test.runIf(isRoot)(
  'without rights: another user, no groups, no capabilities, no new privileges, no config folder',
  async () => {
    const script =
      'id -u; id -G; grep -E "^(CapBnd|CapEff|CapInh|NoNewPrivs)" /proc/self/status; cat "$CONFIG"/mgmt-token; ls "$CONFIG"'
    const child = await shell(script, { unprivileged: true, env: { CONFIG: host.configDir } })
    const [output, errors] = await Promise.all([text(child.stdout!), text(child.stderr!)])
    const lines = output.trim().split('\n')
    expect(Number(lines[0])).toBeGreaterThan(0)
    expect(lines[1]!.split(' ')).toHaveLength(1)
    expect(lines.slice(2).map(line => line.split(/\s+/))).toEqual([
      ['CapInh:', '0000000000000000'],
      ['CapEff:', '0000000000000000'],
      ['CapBnd:', '0000000000000000'],
      ['NoNewPrivs:', '1'],
    ])
    expect(errors).toMatch(/Permission denied|No such file/)
    expect(output).not.toContain('mgmt-token')
    const running = await shell('sleep 606', { unprivileged: true })
    await running.stop()
    expect(isThere(running.pid)).toBe(false)
  },
)

test('without rights neither the config folder nor folders of others nor processes outside are there', async () => {
  const [own, other] = [await ctx.folder('own', { unprivileged: isRoot }), await ctx.folder('other')]
  const script = 'ls "$CONFIG"; ls "$1/.."; echo x > "$1/mine"; kill -0 "$2" 2>&1; ls -d /proc/[0-9]*'
  const child = await shell('', {
    args: ['-c', script, '-', own, String(process.pid)],
    unprivileged: true,
    folders: [own],
    env: { CONFIG: host.configDir },
  })
  const [output] = await Promise.all([text(child.stdout!), child.exited])
  expect(output).toContain(basename(own))
  expect(output).not.toContain(basename(other))
  expect(output).not.toContain('mgmt-token')
  expect(output).toMatch(/No such process/)
  expect(output.match(/^\/proc\/\d+$/gm)!.length).toBeLessThan(8)
  expect(readFileSync(join(own, 'mine'), 'utf8')).toBe('x\n')
})

test('the command line that takes rights away', async () => {
  const made = await withoutRights({ command: 'x', args: ['y'] }, '/c').catch(e => (e as Error).message)
  if (typeof made === 'string') expect(made).toContain('bubblewrap is missing')
  else expect(made[1].join(' ')).toMatch(/--tmpfs \/c (--cap-drop ALL|-- .*setpriv --reuid=.*) -- x y$/)
})

test("a folder is empty, its owner's, and gone with all it holds; no other path is ever removed", async () => {
  const path = await ctx.folder('scratch', { unprivileged: isRoot })
  const { mode, uid } = statSync(path)
  expect([mode & 0o777, uid === 0]).toEqual([0o700, false])
  await (
    await shell(`mkdir -p ${path}/a/b; ln -s ${host.configDir} ${path}/link; echo x > ${path}/a/b/c`, {
      unprivileged: true,
    })
  ).exited
  expect(existsSync(`${path}/a/b/c`)).toBe(true)
  expect(effects()).toContain('folder scratch')
  await host.extensions.enable('runner', false)
  expect([existsSync(path), existsSync(host.configDir)]).toEqual([false, true])
  for (const wrong of ['/etc', host.configDir, '/run/svc-host', '/run/svc-host/../x-0123456789ab']) {
    await expect(undoFolder({ path: wrong })).rejects.toThrow('is no folder of this host')
  }
})

test('killed before the pid was known, the marker is enough; another boot or a reused pid is left alone', async () => {
  const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const marker = randomBytes(16).toString('hex')
  const marked = { env: { SVC_EFFECT_MARKER: marker, PATH: '/bin' }, detached: true }
  const child = spawn('/bin/sh', ['-c', 'sleep 607; true'], marked)
  const bystander = spawn('/bin/sleep', ['608'], { detached: true, env: {} })
  const record = { label: 'x', marker, graceMs: 200 }
  await expect.poll(() => carriers(marker).length).toBe(2)
  await undoProcess({ ...record, bootId: 'an earlier one' })
  await undoProcess({ ...record, bootId, marker: 'none', pid: bystander.pid, startTime: 1 })
  expect(carriers(marker).length).toBe(2)
  expect(isThere(bystander.pid!)).toBe(true)
  const exited = once(child, 'exit')
  await undoProcess({ ...record, bootId })
  await exited
  expect(carriers(marker)).toEqual([])
  expect(isThere(bystander.pid!)).toBe(true)
  bystander.kill('SIGKILL')
})
