// What an author is told before anybody else is: all at once, each with its place; and parsers that take whatever is written.
import { chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type } from '../../test/harness/command-line.ts'
import { writePackage } from '../../test/harness/packages.ts'
import { readModule } from './imports.ts'
import { linesOf, pointAt } from './lines.ts'
import { unasked } from './workplace.ts'

let shop: string
beforeAll(() => {
  shop = mkdtempSync(join(tmpdir(), 'svc-author-'))
})
afterAll(() => rmSync(shop, { recursive: true }))

test('all that is wrong is said at once, with its line', async () => {
  const folder = writePackage(shop, 'wrong', {
    realm: 'isolate',
    main: 'import { z } from "zod"\nimport fs from "node:fs"\nimport "./gone.js"\nimport "leftpad"\nimport "../out.js"\nexport const a = 1\n',
    packageJson: {
      files: ['index.js', 'extension.json', 'open.js'],
      dependencies: { leftpad: '1' },
      scripts: { postinstall: 'true' },
    },
    files: { 'open.js': 'export {}' },
  })
  const manifest = [
    '{',
    '  "id": "wrong",',
    '  "version": "2.0",',
    '  "sdk": "^1.0.0",',
    '  "title": "Wrong",',
    '  "permissions": [',
    '    "routes",',
    '    "netwrk:example.com"',
    '  ],',
    '  "main": "index.js",',
    '  "colour": "red"',
    '}',
  ]
  writeFileSync(join(folder, 'extension.json'), manifest.join('\n'))
  chmodSync(join(folder, 'open.js'), 0o666)
  const bad = await type(shop, 'plugins', 'verify', folder)
  expect(bad.code).toBe(1)
  expect(bad.out).toMatch(/^refused: extension\.json:3: version: must be a semantic version$/m)
  expect(bad.out).toMatch(/^refused: extension\.json:8: .*there is no kind "netwrk"/m)
  expect(bad.out).toMatch(/^refused: extension\.json:11: Unrecognized key: "colour"$/m)
  expect(bad.out).toMatch(/^refused: package\.json has dependencies \(leftpad\)/m)
  expect(bad.out).toMatch(/^remark: open\.js may be changed by everybody/m)
  expect(bad.out).toMatch(/^remark: its scripts \(postinstall\)/m)

  writeFileSync(
    join(folder, 'extension.json'),
    JSON.stringify({ id: 'wrong', version: '1.0.0', sdk: '^9.0.0', title: 'Wrong', main: 'index.js' }),
  )
  const better = await type(shop, 'plugins', 'verify', folder)
  expect(better.out).toContain('index.js:2 imports "node:fs", which the isolate realm does not have')
  expect(better.out).toContain('index.js imports gone.js, which is not in the package')
  expect(better.out).toContain('index.js:4 imports "leftpad", which the host does not supply')
  expect(better.out).toContain('index.js:5 imports "../out.js", which leads out of the package')
  expect(better.out).toContain('index.js has no default export')
  expect(better.out).toContain('needs sdk ^9.0.0')
})

test('what cannot even be packed is looked into all the same', async () => {
  const folder = writePackage(shop, 'unnamed', { realm: 'isolate', main: 'import "fs"' })
  writeFileSync(join(folder, 'package.json'), '{\n  "type": "module"\n}')
  const { code, out } = await type(shop, 'plugins', 'verify', folder)
  expect(code).toBe(1)
  expect(out).toMatch(/^refused: package\.json: name: /m)
  expect(out).toMatch(/^refused: package\.json: version: /m)
})

test('an author is reminded of what was forgotten', async () => {
  const folder = writePackage(shop, 'forgot', {
    realm: 'isolate',
    main: 'export default { setup(ctx) { ctx.route({}); return fetch("https://a.example") } }',
    packageJson: { files: ['index.js'] },
    files: { 'index.ts': 'export default {}' },
  })
  const soon = new Date(Date.now() + 60_000)
  utimesSync(join(folder, 'index.ts'), soon, soon)
  const { out } = await type(shop, 'plugins', 'verify', folder)
  rmSync(join(folder, 'index.js'))
  const uncompiled = await type(shop, 'plugins', 'verify', folder)
  expect(uncompiled.out).toContain('index.ts is not compiled yet; run npm run build first')
  expect(out).toContain('extension.json is in the folder, but not in the package; name it under "files"')
  expect(out).toContain('index.js is older than index.ts; build it anew')
  expect(unasked('a\nctx.on(x) // fetch(', ['routes'], 'i.js')).toEqual([
    'i.js:2 listens to events, but extension.json does not ask for "events:…"',
  ])
  expect(unasked('ctx.files.read(x)\nctx.route(y)', ['write:/srv', 'routes'], 'i.js')).toEqual([])
})

test('every value of a JSON text has the line that it stands in', () => {
  // A path with dots in its names means more than one place.
  const key = fc.string({ minLength: 1 }).filter(name => !name.includes('.') && name !== '__proto__')
  const { value } = fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue({ maxDepth: 0 }),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    ),
  }))
  const pathsOf = (of: unknown, path: readonly (string | number)[] = []): string[] =>
    typeof of === 'object' && of !== null
      ? [
          ...(path.length ? [path.join('.')] : []),
          ...Object.entries(of).flatMap(([name, inner]) => pathsOf(inner, [...path, name])),
        ]
      : path.length
        ? [path.join('.')]
        : []
  fc.assert(
    fc.property(value, given => {
      const text = JSON.stringify(given, null, 2)
      const lines = linesOf(text)
      expect([...lines.keys()].sort()).toEqual([...new Set(pathsOf(given))].sort())
      const rows = text.split('\n')
      for (const [path, line] of lines) {
        const last = path.split('.').at(-1)!
        const row = rows[line - 1]!
        expect(row.includes(JSON.stringify(last)) || /^\s+\S/.test(row)).toBe(true)
      }
      // Each value has a line of its own when it is written so.
      expect(new Set(lines.values()).size).toBe(lines.size)
    }),
  )
})

test('whatever is written, the answer is sentences about it', async () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (problem, text) => {
      expect(pointAt(`extension.json: ${problem}`, 'extension.json', text).join('; ')).toContain(
        problem.split('; ').at(-1)!,
      )
    }),
  )
  const word = fc.constantFrom(
    ...[
      'import',
      'export',
      'default',
      '{',
      '}',
      '(',
      ')',
      '"./a.js"',
      "'zod'",
      '`',
      '/',
      '*',
      'from',
      '\n',
      ';',
    ],
  )
  const code = fc.oneof(
    fc.string(),
    fc.array(word, { maxLength: 30 }).map(words => words.join(' ')),
  )
  await fc.assert(
    fc.asyncProperty(code, fc.constantFrom('isolate', 'process', 'kernel'), async (text, realm) => {
      const { refusals, own } = await readModule('index.js', text, { realm })
      for (const sentence of refusals) expect(sentence).toMatch(/^index\.js(:\d+)? /)
      for (const path of own) expect(path.startsWith('..')).toBe(false)
    }),
  )
})
