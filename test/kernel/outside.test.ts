// What extensions do outside: requests, files and command lines, as far as they were granted, and whatever is in the way.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import {
  chmod,
  cp,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineExtension, route } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { runtimeFolder } from '../../kernel/folder.ts'
import { createGuests } from '../harness/guests.ts'

const guests = createGuests()
/** Requests that are never answered. */
const slow = new Set<ServerResponse>()
const nap = `/bin/sleep 61.${process.pid}`
const server = createServer((request, response) => {
  if (request.url === '/json') response.setHeader('content-type', 'application/json').end('{"a":[1,"ü"]}')
  else if (request.url === '/big') response.end(Buffer.alloc(1024 * 1024, 'x'))
  else if (request.url === '/slow') slow.add(response.on('close', () => slow.delete(response)))
  else request.pipe(response.writeHead(200, { 'x-method': request.method }))
})
const free: InlineExtension = {
  manifest: { id: 'free' },
  extension: defineExtension({
    setup(ctx) {
      ctx.route(
        route({
          ...{ method: 'POST', path: '/ext/free/run', summary: 'r', lanes: { plugin: false, device: false } },
          body: z.object({ code: z.string() }),
          replies: { 200: z.looseObject({}) },
          handler: async ({ body }) => ({
            value:
              (await new ((async () => {}).constructor as FunctionConstructor)('ctx', body.code)(ctx)) ??
              null,
          }),
        }),
      )
    },
  }),
}
let host: TestHost
const homely = `.svc-outside-${process.pid}`
let root: string
let base: string

/** Runs what it is told, as an author would have written it, and says what came of it. */
const puppet = `async setup(ctx) {
  const run = async code => {
    try {
      const value = await new (async () => {}).constructor('ctx', 'sdk', code)(ctx, sdk)
      return { value: value ?? null }
    } catch (e) { return { error: e.name + ': ' + e.message } }
  }
  ctx.route(route({ method: 'POST', path: '/ext/' + ctx.id + '/run', summary: 'r', lanes: admin, body: z.object({ code: z.string() }),
    replies: { 200: z.looseObject({}) }, handler: ({ body }) => run(body.code) }))
}`

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-outside-'))
  for (const folder of ['given', 'given/sub', 'other', 'behind', 'read']) await mkdir(join(root, folder))
  await chmod(root, 0o755)
  await mkdir(join(root, 'conf'), { mode: 0o700 })
  await writeFile(join(root, 'other/secret'), 'secret')
  await symlink(join(root, 'behind'), join(root, 'linked'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  base = `http://localhost:${(server.address() as AddressInfo).port}`
  const permissions = [
    ...[
      'routes',
      `network:${base.slice(7)}`,
      `write:${root}/given`,
      `read:${root}/read`,
      `write:~/${homely}`,
      `write:${root}/linked`,
    ],
    ...['exec:/bin/echo {a} --name={b} {c}', 'exec:/bin/cat', 'exec:/usr/bin/yes', 'exec:/usr/bin/id -un'],
    ...[
      'exec:/bin/false',
      `exec:/bin/ls ${await runtimeFolder()}`,
      'exec:/nowhere/program',
      'exec:/usr/bin/env',
      `exec:/bin/cat ${root}/conf/mgmt-token`,
    ],
    // Everything: what is never opened stays closed all the same.
    'read:/',
  ]
  const code = `export default defineExtension({ ${puppet} })`
  const all = await guests.write('all', code, { permissions })
  const some = permissions.filter(each => each !== 'read:/')
  const installed = await guests.write('installed', code, {
    permissions: ['routes', 'network:{config.url}', `read:${root}/read`, 'exec:/bin/cat'],
  })
  await cp(installed, join(root, 'conf/plugins/.versions/installed/1.0.0'), { recursive: true })
  const ledger = { dependencies: { 'svc-plugin-installed': '1.0.0' } }
  await writeFile(join(root, 'conf/plugins/package.json'), JSON.stringify(ledger))
  host = await startHost({
    config: { installed: { url: base } },
    extensions: [
      all,
      await guests.write('some', code, { permissions: some }),
      await guests.write('none', code, { permissions: ['routes'] }),
      await guests.write('leaver', code, {
        permissions: ['routes', `exec:${nap}`, `network:${base.slice(7)}`],
      }),
      free,
    ],
    configDir: join(root, 'conf'),
  })
})
afterAll(async () => {
  await host.stop()
  server.close()
  await guests.remove()
  await rm(root, { recursive: true })
  await rm(join(homedir(), homely), { recursive: true, force: true })
})

const ask = async (id: string, code: string): Promise<{ value?: unknown; error?: string }> => {
  const { status, json } = await host.inject('POST', `/ext/${id}/run`, { body: { code } })
  expect(status, JSON.stringify(json)).toBe(200)
  return json
}
const value = async (id: string, code: string): Promise<unknown> => {
  const { value, error } = await ask(id, code)
  expect(error).toBeUndefined()
  return value
}
const error = async (id: string, code: string): Promise<string> =>
  (await ask(id, code)).error ?? 'it went through'
const text = JSON.stringify

test('fetch answers as authors know it, with bodies both ways', async () => {
  const seen = await value(
    'some',
    `const json = await fetch(${text(`${base}/json`)})
    const big = await (await fetch(${text(`${base}/big`)})).bytes()
    const sent = new Uint8Array(150_000).map((_, at) => at * 7)
    const back = await fetch(new URL('/echo?x', ${text(base)}), { method: 'post', body: sent, headers: { 'X-Y': 'z' } })
    const same = new Uint8Array(await back.arrayBuffer())
    const many = await Promise.all(Array.from({ length: 20 }, async (_, at) =>
      (await (await fetch(${text(base)}, { method: 'PUT', body: 'ü'.repeat(2000) + at })).text()).length))
    return [json.ok, json.headers.get('content-type'), await json.json(), big.length, back.headers.get('x-method'),
      same.length, same.every((byte, at) => byte === sent[at]), Math.min(...many), Math.max(...many)]`,
  )
  expect(seen).toEqual([
    true,
    'application/json',
    { a: [1, 'ü'] },
    1048576,
    'POST',
    150_000,
    true,
    2001,
    2002,
  ])
})

test('fetch is refused without a grant, cut by a signal, and by its own limits', async () => {
  const lacks = 'PermissionError: none does not ask for network:localhost'
  expect(await error('none', `await fetch(${text(base)})`)).toContain(lacks)
  expect(await error('some', `await fetch('http://127.0.0.1:1/')`)).toContain('network:127.0.0.1:1')
  expect(await error('some', `await fetch('http://localhost:${host.port}/')`)).toContain('PermissionError')
  const cut = `await fetch(${text(`${base}/slow`)}, { signal: AbortSignal.timeout(30) })`
  expect(await error('some', cut)).toBe('TimeoutError: took longer than 30 ms')
  const huge = `await fetch(${text(base)}, { method: 'POST', body: new Uint8Array(4194305) })`
  expect(await error('some', huge)).toContain('over 4194304 bytes cannot be sent')
  expect(await error('some', `await fetch(${text(base)}, { body: {} })`)).toContain('TypeError: a body is')
  expect(await error('some', `(await fetch(${text(base)})).body`)).toContain('no streams in this realm')
})

test('the small parts of the web platform are there', async () => {
  const seen = await value(
    'none',
    `const url = new URL('../x?a=1', 'https://h/b/c/'); url.searchParams.append('b', 'ü')
    const random = crypto.getRandomValues(new Uint8Array(32))
    return [url.href, atob(btoa('x')), new TextDecoder().decode(new TextEncoder().encode('ü')), structuredClone({ a: [1] }),
      new Set(random).size > 8, crypto.randomUUID().length]`,
  )
  expect(seen).toEqual(['https://h/b/x?a=1&b=%C3%BC', 'x', 'ü', { a: [1] }, true, 36])
})

test('much at once crosses in turns', async () => {
  const seen = await value(
    'none',
    `const names = Array.from({ length: 15 }, (_, at) => 'k' + at)
    await Promise.all(names.map(name => ctx.storage.set(name, name.repeat(20_000))))
    const all = await Promise.all(names.map(name => ctx.storage.get(name)))
    await Promise.all(names.map(name => ctx.storage.delete(name)))
    return all.every((text, at) => text === names[at].repeat(20_000))`,
  )
  expect(seen).toBe(true)
})

test.each(['some', 'free'])('files are read, written, listed, looked at and removed: %s', async id => {
  const folder = join(root, 'given')
  const seen = await value(
    id,
    `const { files } = ctx, at = ${text(folder)}
    await files.makeFolder(at + '/a/b'); await files.makeFolder(at + '/a/b/')
    await files.write(at + '/a/b/t.txt', 'grün'); await files.write(at + '/a/big', new Uint8Array(300_000).fill(7))
    const big = await files.read(at + '/a/big')
    const list = (await files.list(at + '/a')).map(e => e.name + ' ' + e.kind).sort()
    const { kind, bytes, modifiedMs } = await files.stat(at + '/a/b/t.txt')
    const seen = [await files.readText(at + '/a//b/./t.txt'), big.length, big[299_999], list, kind, bytes, Math.abs(Date.now() - modifiedMs) < 60000]
    await files.remove(at + '/a/b/t.txt'); await files.remove(at + '/a/b'); await files.remove(at + '/a/big'); await files.remove(at + '/a')
    return [...seen, await files.stat(at + '/a') ?? 'none']`,
  )
  expect(seen).toEqual(['grün', 300_000, 7, ['b folder', 'big file'], 'file', 5, true, 'none'])
})

test('a file keeps its owner and mode, is whole at any moment, and nothing else is left', async () => {
  const file = join(root, 'given/kept')
  await writeFile(file, 'old', { mode: 0o640 })
  let isWriting = true
  const writes = value(
    'some',
    `for (let i = 0; i < 20; i++) await ctx.files.write(${text(file)}, String(i % 10).repeat(30_000))`,
  )
  void writes.finally(() => {
    isWriting = false
  })
  while (isWriting) {
    const content = await readFile(file, 'utf8')
    expect(content === 'old' || (content.length === 30_000 && content === content[0]!.repeat(30_000))).toBe(
      true,
    )
  }
  await writes
  expect((await stat(file)).mode & 0o777).toBe(0o640)
  expect((await readdir(join(root, 'given'))).filter(name => name.endsWith('.tmp'))).toEqual([])
  const over = `await ctx.files.write(${text(file)}, new Uint8Array(4194305))`
  expect(await error('some', over)).toContain('over 4194304 bytes')
})

test('paths that are none, not granted, or not what they seem are refused', async () => {
  const { configDir } = host
  await symlink(join(root, 'other/secret'), join(root, 'given/way-out'))
  await symlink(join(root, 'other'), join(root, 'given/folder-out'))
  await symlink(join(configDir, 'mgmt-token'), join(root, 'read/token'))
  await symlink('/proc/self/root', join(root, 'given/root'))
  await symlink('loop', join(root, 'given/loop'))
  const cases: [id: string, path: string, why: string][] = [
    ['some', 'relative', 'is no path'],
    ['some', '', 'is no path'],
    ['some', `${root}/given/../other/secret`, 'is no path'],
    ['some', `${root}/given/\0`, 'is no path'],
    ['some', '~root/x', 'is no path'],
    ['some', `${root}/given/${'x'.repeat(5000)}`, 'Too big'],
    ['some', `${root}/other/secret`, `does not ask for read:${root}/other/secret`],
    ['some', `${root}/given2`, 'does not ask for'],
    ['some', `${root}/given/way-out`, `leads to ${root}/other/secret, which was not granted`],
    ['some', `${root}/given/folder-out/secret`, `leads to ${root}/other/secret, which was not granted`],
    ['some', `${root}/given/root/etc/passwd`, 'leads to /etc/passwd, which was not granted'],
    ['some', `${root}/given/loop`, 'its links lead in a circle'],
    ['some', `${root}/given/none`, 'there is no such file or folder'],
    ['some', `${root}/given/kept/x`, 'a part of it is no folder'],
    ['some', `${root}/given/sub`, 'is no file'],
    ['some', `${root}/read/token`, 'lies among the settings of the host, which no permission opens'],
    ['all', `${root}/read/token`, 'lies among the settings of the host, which no permission opens'],
    ['all', `${configDir}/mgmt-token`, 'which no permission opens'],
    ['all', `${configDir}/plugin-state/some/storage.json`, 'no such file'],
    ['all', `/proc/self/root${configDir}/mgmt-token`, 'which no permission opens'],
    ['all', `/proc/${process.pid}/environ`, 'no file of a disk'],
    ['all', '/proc/self/mem', 'no file of a disk'],
    ['all', '/dev/zero', 'no file of a disk'],
    ['all', '/sys/kernel/notes', 'no file of a disk'],
    ['none', `${root}/given/kept`, 'PermissionError: none does not ask for read:'],
  ]
  for (const [id, path, why] of cases)
    expect(await error(id, `await ctx.files.read(${text(path)})`), path).toContain(why)
  expect(await value('all', `return (await ctx.files.readText('/etc/passwd')).includes('root')`)).toBe(true)
  for (const verb of ['remove', 'makeFolder', 'list'])
    expect(
      await error('some', `await ctx.files.${verb}(${text(`${root}/given/folder-out/secret`)})`),
    ).toContain('not granted')
  const writes: [path: string, why: string][] = [
    [`${root}/read/x`, `does not ask for write:${root}/read/x`],
    [`${root}/given/folder-out/x`, `leads to ${root}/other/x, which was not granted`],
    [`${root}/given/sub`, 'it is a folder'],
    [`${root}/given/none/x`, 'there is no such file or folder'],
  ]
  for (const [path, why] of writes)
    expect(await error('some', `await ctx.files.write(${text(path)}, 'x')`), path).toContain(why)
  expect(await readFile(join(root, 'other/secret'), 'utf8')).toBe('secret')
  // A link is replaced, what it led to is not.
  await value('some', `await ctx.files.write(${text(`${root}/given/way-out`)}, 'mine')`)
  expect(await readFile(join(root, 'other/secret'), 'utf8')).toBe('secret')
})

test('a granted folder that is a link is granted where it leads', async () => {
  const path = text(join(root, 'linked/in'))
  expect(await value('some', `await ctx.files.write(${path}, 'x'); return ctx.files.readText(${path})`)).toBe(
    'x',
  )
  expect(await readFile(join(root, 'behind/in'), 'utf8')).toBe('x')
})

test('pipes, devices and sockets are not opened', async () => {
  const { execFileSync } = await import('node:child_process')
  execFileSync('mkfifo', [join(root, 'given/pipe')])
  expect(await error('some', `await ctx.files.read(${text(`${root}/given/pipe`)})`)).toContain('is no file')
  expect(await value('some', `return (await ctx.files.stat(${text(`${root}/given/pipe`)})).kind`)).toBe(
    'other',
  )
})

test('a link that comes and goes while files are used never leads out', async () => {
  const [swap, away] = [join(root, 'given/swap'), join(root, 'given/away')]
  await mkdir(swap)
  await writeFile(join(swap, 'secret'), 'inside')
  await symlink(join(root, 'other'), away)
  let isOver = false
  const swapping = (async () => {
    while (!isOver) {
      await rename(swap, join(root, 'given/kept-aside'))
      await rename(away, swap)
      await rename(swap, away)
      await rename(join(root, 'given/kept-aside'), swap)
    }
  })()
  const seen = (await value(
    'some',
    `const seen = new Set(); const at = ${text(join(swap, 'secret'))}
    for (let i = 0; i < 60; i++) {
      try { seen.add(await ctx.files.readText(at)) } catch (e) { seen.add(e.name) }
      try { await ctx.files.write(at, 'inside') } catch (e) { seen.add(e.name) }
    }
    return [...seen]`,
  )) as string[]
  isOver = true
  await swapping
  expect(seen).not.toContain('secret')
  expect(seen).toContain('inside')
  expect(await readFile(join(root, 'other/secret'), 'utf8')).toBe('secret')
  expect((await readdir(join(root, 'other'))).sort()).toEqual(['secret'])
})

test('what is under ~ is asked for either way', async () => {
  const seen = await value(
    'some',
    `await ctx.files.makeFolder('~/${homely}'); await ctx.files.write('~/${homely}/a', 'x')
    const text = await ctx.files.readText(${text(join(homedir(), homely, 'a'))}); await ctx.files.remove('~/${homely}/a')
    await ctx.files.remove('~/${homely}'); return text`,
  )
  expect(seen).toBe('x')
})

test('command lines run without a shell and without rights, and values stay values', async () => {
  const echo = `'/bin/echo {a} --name={b} {c}'`
  const run = `const { code, stdout } = await ctx.exec(${echo}, { a: '$(id); x  y', b: '-n "q"', c: '' }); return [code, stdout]`
  expect(await value('some', run)).toEqual([0, '$(id); x  y --name=-n "q" \n'])
  const wrong: [values: string, why: string][] = [
    [`{ a: '-e', b: '', c: '' }`, 'begins with "-"'],
    [`{ a: 'x', b: '' }`, 'no value for {c}'],
    [`{ a: 'x', b: '', c: '', d: 'y' }`, 'has no place for {d}'],
    [`{ a: 'x\\0', b: '', c: '' }`, 'has a NUL in it'],
    [`{ a: 1, b: '', c: '' }`, 'no value for {a}'],
    [`{ a: 'x'.repeat(70000), b: '', c: '' }`, 'over 65536 characters'],
  ]
  for (const [values, why] of wrong)
    expect(await error('some', `await ctx.exec(${echo}, ${values})`)).toContain(why)
  expect(await error('some', `await ctx.exec('/bin/echo {a}', { a: 'x' })`)).toContain('PermissionError')
  expect(await error('none', `await ctx.exec('/bin/cat')`)).toContain('none does not ask for exec:/bin/cat')
  expect(await value('some', `return (await ctx.exec('/bin/false')).code`)).toBe(1)
  expect(await error('some', `await ctx.exec('/nowhere/program')`)).toMatch(
    /nowhere|cannot be started|it went through/,
  )
  expect(await value('some', `return (await ctx.exec('/bin/cat')).stdout`)).toBe('')
  const env = (await value('some', `return (await ctx.exec('/usr/bin/env')).stdout`)) as string
  expect(env.split('\n').map(line => line.split('=')[0])).not.toContain('SVC_CONFIG_DIR')
  expect(env).not.toContain(host.adminToken)
  if (process.getuid!() === 0)
    expect(await value('some', `return (await ctx.exec('/usr/bin/id -un')).stdout`)).toBe('svc-session\n')
  const scopes = await runtimeFolder()
  const probe = await mkdtemp(join(scopes, 'outside-'))
  expect(await value('some', `return (await ctx.exec('/bin/ls ${scopes}')).stdout`)).toBe('')
  await rm(probe, { recursive: true })
  const token = `return (await ctx.exec('/bin/cat ${join(root, 'conf/mgmt-token')}')).stdout`
  expect(await value('some', token)).toBe('')
})

test('a command that writes without end is ended', async () => {
  expect(await error('some', `await ctx.exec('/usr/bin/yes')`)).toContain(
    'wrote over 1048576 bytes and was ended',
  )
  expect(await value('free', `return (await ctx.exec('/bin/echo {x}', { x: 'free' })).stdout`)).toBe('free\n')
})

test('a process of its own has the same, and no more', async () => {
  const folder = await guests.write('apart', `export default defineExtension({ ${puppet} })`, {
    realm: 'process',
    permissions: ['routes', `write:${root}/behind`, 'exec:/bin/echo {a}'],
  })
  const { stop, inject } = await startHost({ extensions: [folder] })
  try {
    const at = text(join(root, 'behind/file'))
    const code = `await ctx.files.write(${at}, new Uint8Array(100_000).fill(120)); const { bytes } = await ctx.files.stat(${at})
      const { stdout } = await ctx.exec('/bin/echo {a}', { a: 'ü' })
      const refused = await ctx.files.read(${text(join(root, 'other/secret'))}).catch(e => e.name)
      return [bytes, (await ctx.files.readText(${at})).length, stdout, refused]`
    const { json } = await inject('POST', '/ext/apart/run', { body: { code } })
    expect(json).toEqual({ value: [100_000, 100_000, 'ü\n', 'PermissionError'] })
  } finally {
    await stop()
  }
})

const isRunning = async (line: string): Promise<boolean> => {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const lines = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return lines.some(each => each.split('\0').slice(-3).join(' ').trim() === line)
}

test('what an extension has under way ends with it', async () => {
  void ask('leaver', `await Promise.all([ctx.exec('${nap}'), fetch(${text(`${base}/slow`)})])`).catch(
    () => {},
  )
  await expect.poll(() => isRunning(nap), { timeout: 10_000 }).toBe(true)
  await expect.poll(() => slow.size).toBe(1)
  await host.extensions.enable('leaver', false)
  await expect.poll(() => slow.size).toBe(0)
  expect(await isRunning(nap)).toBe(false)
})

test('an installed one has what was granted, until it is taken back', async () => {
  const of = () => host.extensions.list().find(({ id }) => id === 'installed')!
  expect(of().why).toContain(`asks for routes, network:{config.url}, read:${root}/read and exec:/bin/cat`)
  const granted = ['routes', 'network:{config.url}']
  const refused = [`read:${root}/read`, 'exec:/bin/cat']
  expect(await host.extensions.permit('installed', { granted, refused })).toMatchObject({ state: 'on' })
  const status = `return (await fetch(${text(base)})).status`
  expect(await value('installed', status)).toBe(200)
  const lacks = (what: string): string => `PermissionError: installed has not been granted ${what}`
  expect(await error('installed', `await ctx.files.read(${text(`${root}/read/x`)})`)).toContain(
    lacks('read:'),
  )
  expect(await error('installed', `await ctx.exec('/bin/cat')`)).toContain(lacks('exec:/bin/cat'))
  void ask('installed', `await fetch(${text(`${base}/slow`)})`).catch(() => {})
  await expect.poll(() => slow.size).toBe(1)
  await host.extensions.permit('installed', { refused: ['network:{config.url}'] })
  await expect.poll(() => slow.size).toBe(0)
  expect(await error('installed', status)).toContain(lacks(`network:${base.slice(7)}`))
})

test('links of the other kind: one name more for a file of the host opens nothing that its folder does not', async () => {
  // Nobody but the operator can make one; the file is then in the granted folder by its own right.
  await link(join(root, 'other/secret'), join(root, 'given/hard'))
  expect(await value('some', `return ctx.files.readText(${text(join(root, 'given/hard'))})`)).toBe('secret')
})

test('the host is as healthy as before', async () => {
  expect(host.extensions.list().map(({ id, state, restarts }) => [id, state, restarts])).toEqual(
    ['all', 'some', 'none', 'leaver', 'free', 'installed'].map(id => [id, id === 'leaver' ? 'off' : 'on', 0]),
  )
  expect(existsSync(join(root, 'conf/mgmt-token'))).toBe(true)
})
