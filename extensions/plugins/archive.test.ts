// Archives that only an enemy makes: refused as a whole, and nothing is written beside the folder given.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type RawEntry, rawArchive } from '../../test/harness/packages.ts'
import { ArchiveRefused, limits, unpack } from './archive.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'svc-archive-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const open = async (content: Buffer): Promise<string[]> => {
  const file = join(root, 'package.tgz')
  writeFileSync(file, content)
  return unpack(file, join(root, 'out/package'))
}
const file = (path: string, content: Buffer | string = 'x'): RawEntry => ({ path, content })

test('files and folders come out as they went in, without the top folder', async () => {
  const written = await open(
    rawArchive([
      { path: 'package/', type: 'Directory' },
      file('package/a.js', 'one'),
      file('package/lib/b.js', 'two'),
    ]),
  )
  expect(readFileSync(join(root, 'out/package/lib/b.js'), 'utf8')).toBe('two')
  expect(written.map(path => path.slice(root.length)).sort()).toEqual([
    '/out/package',
    '/out/package/a.js',
    '/out/package/lib',
    '/out/package/lib/b.js',
  ])
})

const hostile: [string, RawEntry[], RegExp][] = [
  ['an absolute path', [file('/etc/svc-evil')], /absolute path/],
  ['a way out', [file('package/../../evil')], /leads out/],
  ['a way out at the start', [file('../evil')], /leads out/],
  ['a backslash', [file('package\\..\\evil')], /character that no path may have/],
  ['a drive', [file('C:/evil')], /character that no path may have/],
  ['a control character', [file('package/a\u001b[2J')], /character that no path may have/],
  ['a dot as a part', [file('package/./a')], /empty part/],
  ['an empty part', [file('package//a')], /empty part/],
  ['a name that ends in a dot', [file('package/a.')], /dot or a blank/],
  ['a file beside the top folder', [file('evil')], /lies beside/],
  ['a link', [{ path: 'package/a', type: 'SymbolicLink', linkpath: '/etc/passwd' }], /is a SymbolicLink/],
  [
    'a link to write through',
    [{ path: 'package/a', type: 'SymbolicLink', linkpath: '/tmp' }, file('package/a/evil')],
    /is a SymbolicLink/,
  ],
  ['a hard link', [{ path: 'package/a', type: 'Link', linkpath: '/etc/passwd' }], /is a Link/],
  ['a device', [{ path: 'package/a', type: 'CharacterDevice' }], /is a CharacterDevice/],
  ['a block device', [{ path: 'package/a', type: 'BlockDevice' }], /is a BlockDevice/],
  ['a pipe', [{ path: 'package/a', type: 'FIFO' }], /is a FIFO/],
  ['two files in one place', [file('package/a'), file('package/a')], /is there twice/],
  [
    'two names that differ in case',
    [file('package/a.js'), file('package/A.JS')],
    /where case does not count/,
  ],
  [
    'two folders that differ in case',
    [file('package/lib/a'), file('package/Lib/b')],
    /where case does not count/,
  ],
  [
    'two spellings of one letter',
    [file('package/\u00e9'), file('package/e\u0301')],
    /where case does not count/,
  ],
  ['a file that is a folder too', [file('package/a'), file('package/a/b')], /is there twice/],
  ['a long way down', [file(`package/${'d/'.repeat(40)}a`)], /too deep/],
  [
    'more entries than any plugin',
    Array.from({ length: limits.files + 1 }, (_, i) => file(`package/${i}`, '')),
    /over 2000 entries/,
  ],
  ['nothing in it', [], /damaged|empty/],
  ['one folder only', [{ path: 'package/', type: 'Directory' }], /is empty/],
]
test.each(hostile)('an archive with %s is refused', async (_name, entries, why) => {
  const error = await open(rawArchive(entries)).catch(each => each)
  expect(error).toBeInstanceOf(ArchiveRefused)
  expect(error.message).toMatch(why)
  expect(readdirSync(root).sort()).toEqual(['out', 'package.tgz'])
  expect(existsSync('/etc/svc-evil')).toBe(false)
})

test('a small file that unpacks to a large one is stopped on the way', async () => {
  const bomb = rawArchive([file('package/zeros', Buffer.alloc(limits.bytes + 2 ** 20))])
  expect(bomb.length).toBeLessThan(2 ** 20)
  await expect(open(bomb)).rejects.toThrow(/unpacks to over/)
})

test('what is no archive, or is cut off or changed, is refused', async () => {
  const good = rawArchive([
    file('package/a', 'x'.repeat(5000)),
    file('package/b', Buffer.from('y'.repeat(5000))),
  ])
  await expect(open(Buffer.from('hello'))).rejects.toThrow(/not a gzipped tar/)
  await expect(open(gzipSync('hello'))).rejects.toBeInstanceOf(Error)
  await expect(open(good.subarray(0, good.length - 20))).rejects.toThrow(/gzipped tar|damaged/)
})

test('any bytes either unpack below the folder or are refused', async () => {
  const entry = fc.record({
    path: fc.oneof(
      fc.string({ minLength: 1, maxLength: 40 }),
      fc.constantFrom('package/a', 'package/../x', '/x', 'package/b/c'),
    ),
    type: fc.constantFrom('File' as const, 'Directory' as const, 'SymbolicLink' as const),
    content: fc.string({ maxLength: 30 }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { maxLength: 4 }),
      fc.nat(2000),
      fc.nat(255),
      async (entries, at, byte) => {
        rmSync(join(root, 'out'), { recursive: true, force: true })
        const plain = rawArchive(
          entries.map(each => (each.type === 'File' ? each : { ...each, content: '' })),
        )
        if (at < plain.length && at > 20) plain[at] = byte
        await open(plain).catch(() => {})
        expect(readdirSync(root).filter(name => !['out', 'package.tgz'].includes(name))).toEqual([])
      },
    ),
    { numRuns: 100 },
  )
})
