// `svc-host plugins config`, typed against a running host: values by the schema, and an editor that loses nothing.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { defineExtension } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { type as typeAt } from '../../test/harness/command-line.ts'
import { getAt, pathOf, withoutValue, withValue } from './config-keys.ts'

const shop: InlineExtension = {
  manifest: { id: 'shop', settings: { port: { flag: 'shop-port', type: 'port', help: 'its port' } } },
  extension: defineExtension({
    config: z.object({
      port: z.int().default(1),
      name: z.string().optional().describe('what it is called'),
      paint: z
        .object({ colour: z.enum(['red', 'blue']).default('red'), coats: z.int().default(2) })
        .prefault({}),
      hosts: z.array(z.string()).default([]),
      either: z.union([z.string(), z.int()]).optional(),
      isOpen: z.boolean().default(true),
      token: z.string().optional().meta({ writeOnly: true }),
      limits: z.record(z.string(), z.int()).optional(),
    }),
    setup(ctx) {
      if (ctx.config.name === 'bad') throw new Error('no bulb')
    },
  }),
}

let host: TestHost
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-config-verbs-'))
  host = await startHost({ extensions: ['plugins', shop], flags: { 'shop-port': '7' } })
})
afterAll(async () => {
  await host.stop()
  rmSync(folder, { recursive: true })
})

const type = (...argv: string[]) => typeAt(host.configDir, 'plugins', 'config', ...argv)
const file = (): string => join(host.configDir, 'extension-config', 'shop.json')
const stored = () => JSON.parse(readFileSync(file(), 'utf8'))

test('set, get and unset go by the schema, and leave the rest alone', async () => {
  await type('set', 'shop', 'later={"kept":[1]}', '--force')
  const line = ['name=12', 'paint.coats=3', 'hosts=["a","b"]', 'either=12', 'isOpen=off', 'limits.a.b=4']
  expect(await type('set', 'shop', ...line)).toMatchObject({
    code: 0,
    out: 'shop is on.\nNobody reads later; check the spelling.\n',
  })
  expect(stored()).toEqual({
    later: { kept: [1] },
    name: '12',
    paint: { coats: 3 },
    hosts: ['a', 'b'],
    either: 12,
    isOpen: false,
    limits: { 'a.b': 4 },
  })
  expect((await type('get', 'shop', 'paint.coats')).out).toBe('3\n')
  expect(JSON.parse((await type('get', 'shop', 'paint', '--json')).out)).toEqual({
    v: 1,
    data: { colour: 'red', coats: 3 },
  })
  const { out } = await type('get', 'shop')
  const rows = out.split('\n').map(row => row.split(/ {2,}/))
  expect(rows).toContainEqual(['paint.colour', '"red"', 'default'])
  expect(rows).toContainEqual(['port', '7', '--shop-port'])
  expect(rows).toContainEqual(['hosts', '["a","b"]', 'file'])
  expect(rows).toContainEqual(['later.kept', '[1]', 'file; nobody reads it'])
  expect(await type('unset', 'shop', 'paint.coats', 'hosts.0', 'limits.a.b', 'later')).toMatchObject({
    code: 0,
  })
  expect(stored()).toEqual({ name: '12', hosts: ['b'], either: 12, isOpen: false })
})

test('a secret may come from a file, and is told of where it was typed', async () => {
  writeFileSync(join(folder, 'token'), 'hush=1\n')
  expect((await type('set', 'shop', '--from', `token=${join(folder, 'token')}`)).out).toBe('shop is on.\n')
  expect(stored().token).toBe('hush=1')
  const { out } = await type('get', 'shop', 'token')
  expect(out).toMatch(/^\(secret [0-9a-f]+\)\n$/)
  expect((await type('set', 'shop', 'token=loud')).out).toMatch(/could have read token; "--from token=FILE"/)
  expect(await type('set', 'shop', '--from', 'token=/nowhere')).toMatchObject({ code: 2 })
  expect(await type('set', 'shop')).toMatchObject({ code: 2 })
  await type('unset', 'shop', 'token')
})

test('every verb has an example in its help', async () => {
  const verbs = async (...path: string[]): Promise<string[]> => {
    const { out } = await typeAt(host.configDir, 'plugins', ...path, '--help')
    const names = [...(out.split('\nCommands:\n')[1] ?? '').matchAll(/^ {2}([a-z]+)/gm)].map(
      ([, name]) => name!,
    )
    if (names.length === 0)
      expect(out, path.join(' ')).toContain(`Examples:\n  svc-host plugins ${path.join(' ')}`)
    return names.filter(name => name !== 'help')
  }
  const names = await verbs()
  expect(names).toEqual(expect.arrayContaining(['list', 'add', 'grant', 'config', 'top', 'doctor', 'new']))
  for (const name of names) for (const inner of await verbs(name)) await verbs(name, inner)
})

test('what cannot be done is a sentence and an exit code, and nothing has changed', async () => {
  const before = readFileSync(file(), 'utf8')
  const refused: [argv: string[], code: number, err: RegExp][] = [
    [['set', 'shop', 'paint.coats=many'], 2, /^paint\.coats is "many": expected a whole number/],
    [['set', 'shop', 'paint.colour=green'], 1, /^paint\.colour: /],
    [['set', 'shop', 'port=3'], 1, /^port is set by --shop-port/],
    [['set', 'shop', 'name.first=x'], 2, /^name is "12" and holds no keys/],
    [['set', 'shop', 'hosts.7=x'], 2, /^hosts is a list of 1/],
    [['set', 'shop', 'name'], 2, /expected KEY=VALUE/],
    [['set', 'shop', '__proto__.x=1'], 2, /__proto__/],
    [['set', 'shop', '__proto__.x=1', '--force'], 1, /__proto__/],
    [['set', 'shop', 'hots=["a"]'], 2, /^nobody reads hots of shop, which takes .*hosts.*; .*--force/],
    [['set', 'shop', 'paint.color=red'], 2, /^nobody reads paint\.color of shop, which takes paint\.colour/],
    [['unset', 'shop', 'nothing'], 1, /nothing stored at nothing/],
    [['get', 'shop', 'nothing'], 1, /nothing at nothing/],
    [['get', 'nobody'], 1, /there is no extension "nobody"/],
    [['gte', 'shop'], 2, /Did you mean get\?/],
  ]
  for (const [argv, code, err] of refused)
    expect(await type(...argv), argv.join(' ')).toMatchObject({
      code,
      out: '',
      err: expect.stringMatching(err),
    })
  expect(readFileSync(file(), 'utf8')).toBe(before)
})

test('one that does not come up with its config says so', async () => {
  const { code, out } = await type('set', 'shop', 'name=bad')
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/^shop is failed: setup failed: no bulb\.\nThe config is stored/),
  ])
  expect(await type('unset', 'shop', 'name')).toMatchObject({ code: 0, out: 'shop is on.\n' })
})

/** An editor that makes these of what it is given, one each time it is opened; what it was given stays beside it. */
function editor(...texts: string[]): string {
  const path = join(folder, 'editor.sh')
  for (const left of ['round', 'text-0', 'text-1', 'text-2']) rmSync(join(folder, left), { force: true })
  texts.forEach((text, round) => {
    writeFileSync(join(folder, `text-${round}`), text)
  })
  const script = `n=$(cat '${folder}/round' 2>/dev/null || echo 0)
cp "$1" '${folder}/given-'$n; echo "$1" > '${folder}/path'; echo $((n+1)) > '${folder}/round'
[ -e '${folder}/text-'$n ] && cat '${folder}/text-'$n > "$1"; exit 0\n`
  writeFileSync(path, `#!/bin/sh\n${script}`)
  chmodSync(path, 0o755)
  vi.stubEnv('VISUAL', path)
  return path
}
const given = (round: number): string => readFileSync(join(folder, `given-${round}`), 'utf8')
const path = (): string => readFileSync(join(folder, 'path'), 'utf8').trim()

test('an editor is opened again with what was wrong, until it fits', async () => {
  editor(
    '{"paint": ',
    '{"paint": {"colour": "green"}}',
    '// mine\n{"paint": {"colour": "blue"}, "name": "// not a remark"}',
  )
  expect(await type('edit', 'shop')).toMatchObject({ code: 0, out: 'shop is on.\n' })
  expect(stored()).toEqual({ paint: { colour: 'blue' }, name: '// not a remark' })
  expect(given(0)).toMatch(/^\/\/ Config of shop\..*\n(\/\/ .*\n)*\/\/ name \(string\): what it is called\n/)
  expect(given(1)).toMatch(/^\/\/ NOT STORED: .*JSON.*\n(.*\n)*\{"paint":\n$/)
  expect(given(2)).toMatch(/^\/\/ NOT STORED: paint\.colour: /)
  expect(existsSync(dirname(path()))).toBe(false)
})

test('nothing that was written in an editor is lost', async () => {
  editor('{"paint": {"colour": "green"}, "name": "long work"}')
  const gaveUp = await type('edit', 'shop')
  expect(gaveUp).toMatchObject({ code: 1, err: expect.stringContaining(`what was written is in ${path()}`) })
  expect(readFileSync(path(), 'utf8')).toContain('long work')
  rmSync(dirname(path()), { recursive: true })

  const script = editor('{"name": "mine"}')
  vi.stubEnv('VISUAL', `failing() { '${script}' "$1"; return 3; }; failing`)
  expect(await type('edit', 'shop')).toMatchObject({ code: 1, err: expect.stringContaining('ended with 3') })
  expect(readFileSync(path(), 'utf8')).toBe('{"name": "mine"}')
  rmSync(dirname(path()), { recursive: true })

  editor('')
  expect((await type('edit', 'shop')).out).toBe('nothing was changed\n')
})

test('a value that was put somewhere is found there, and taken out without a trace', () => {
  const key = fc.string({ maxLength: 5 }).filter(text => text !== '' && !text.includes('.'))
  const record = (values: object) => ({ schema: null, values: values as Record<string, unknown> })
  fc.assert(
    fc.property(fc.array(key, { minLength: 1, maxLength: 4 }), fc.jsonValue(), (path, value) => {
      expect(pathOf(path.join('.'), record({}))).toEqual(path)
      const values = withValue({ other: 1 }, ['own', ...path], value)
      expect(getAt(values, ['own', ...path])).toEqual(value)
      expect(withoutValue(values, ['own', ...path])).toEqual({ other: 1 })
    }),
  )
})
