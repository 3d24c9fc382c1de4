// The parts that strangers' texts go through on their way outside: paths, command lines and parcels, whatever is in them.
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { covers, type Files, PermissionError } from 'svc-host/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Rights } from '../../kernel/permissions.ts'
import { commandOf } from '../../kernel/realms/exec.ts'
import { createFiles } from '../../kernel/realms/files.ts'
import { createParcels } from '../../kernel/realms/parcels.ts'

let root: string
let files: Files
const rightsOf = (...granted: string[]): Rights => {
  const has = (permission: string): boolean => {
    try {
      return granted.some(grant => covers(grant, permission))
    } catch {
      return false
    }
  }
  return {
    has,
    check(permission) {
      if (!has(permission)) throw new PermissionError(permission, `${permission} was not granted`)
    },
    decided: { asked: granted, granted, refused: [] },
    isFree: false,
  }
}
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-outside-parts-'))
  for (const folder of ['in/a', 'out', 'conf/plugin-state/me', 'conf/plugin-state/you'])
    await mkdir(join(root, folder), { recursive: true })
  for (const folder of ['in', 'in/a']) await writeFile(join(root, folder, 'f'), 'inside')
  for (const folder of ['out', 'conf', 'conf/plugin-state/you'])
    await writeFile(join(root, folder, 'f'), 'outside')
  await writeFile(join(root, 'conf/plugin-state/me/f'), 'inside')
  const links = {
    up: '..',
    out: '../out',
    top: '/',
    conf: '../conf',
    me: '../conf/plugin-state/me',
    here: '.',
    self: '/proc/self/cwd',
  }
  for (const [name, to] of Object.entries(links)) await symlink(to, join(root, 'in', name))
  files = createFiles({
    id: 'me',
    configDir: join(root, 'conf'),
    rights: rightsOf(`write:${root}/in`, `read:${root}/conf`),
  })
})
afterAll(() => rm(root, { recursive: true }))

test('property: whatever path is asked for, what comes is from where it was granted', async () => {
  const piece = fc.constantFrom(
    ...[
      'a',
      'f',
      'up',
      'out',
      'top',
      'conf',
      'me',
      'here',
      'self',
      'plugin-state',
      'you',
      '..',
      '.',
      '',
      '~',
      '\0',
      'in',
    ],
  )
  const path = fc.tuple(fc.constantFrom('/in/', '/conf/', '/', ''), fc.array(piece, { maxLength: 5 }))
  await fc.assert(
    fc.asyncProperty(path, async ([start, pieces]) => {
      const given = `${root}${start}${pieces.join('/')}`
      const content = await files.readText(given).catch(error => error as Error)
      if (typeof content === 'string') expect(content, given).toBe('inside')
    }),
    { numRuns: 400 },
  )
  expect(await files.readText(`${root}/in/me/f`).catch(({ name }) => name)).toBe('inside')
  expect(await files.readText(`${root}/conf/plugin-state/me/f`)).toBe('inside')
})

test('property: a value is one argument or part of one, and never an option', () => {
  const value = fc.oneof(fc.string(), fc.constantFrom('-x', '--', '', ' ', '{b}', '$(a)', 'a b', '\n', '-'))
  fc.assert(
    fc.property(value, value, (a, b) => {
      let made: [string, string[]]
      try {
        made = commandOf('/bin/x  {a} --b={b} {b}{a} end', { a, b })
      } catch (error) {
        expect(String(error)).toMatch(/begins with "-"|NUL/)
        return
      }
      expect(made).toEqual(['/bin/x', [a, `--b=${b}`, b + a, 'end']])
      expect([made[1][0], made[1][2]].some(arg => arg!.startsWith('-'))).toBe(false)
    }),
  )
  for (const template of ['x {a}', '{a}', '/bin/{a}', '', ' '])
    expect(() => commandOf(template, { a: 'b' }), template).toThrow('begins with no program')
  expect(() => commandOf('/bin/x {toString}', {})).toThrow('no value for {toString}')
})

test('property: parcels come out as they went in, and no more of them are kept than may', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(300), (bytes, cut) => {
      const parcels = createParcels()
      for (const part of [bytes.subarray(0, cut), bytes.subarray(cut)])
        parcels.add(1, Buffer.from(part).toString('base64'))
      expect([...parcels.take(1)!]).toEqual([...bytes])
      expect(parcels.take(1)).toHaveLength(0)
    }),
  )
  const parcels = createParcels()
  const whole = Buffer.alloc(64 * 1024 * 3, 'x')
  const number = parcels.give(whole) as number
  const pieces = Array.from({ length: 4 }, () => Buffer.from(parcels.next(number), 'base64'))
  expect(Buffer.concat(pieces).equals(whole)).toBe(true)
  expect(pieces.at(-1)).toHaveLength(0)
  expect(parcels.give(Buffer.from('x'))).toBe('eA==')
  const mega = Buffer.alloc(1024 * 1024).toString('base64')
  for (let each = 0; each < 24; each++) parcels.add(each, mega)
  expect(() => parcels.add(99, mega)).toThrow('are under way')
  parcels.take(0)
  parcels.add(99, mega)
  const empty = createParcels()
  for (let each = 0; each < 256; each++) empty.add(each, '')
  expect(() => empty.add(256, '')).toThrow('256 parcels')
})
