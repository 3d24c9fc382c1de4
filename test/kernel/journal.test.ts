// The journal: torn tails and damaged lines cost what they hold and nothing else; compaction loses nothing.
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Log } from 'svc-host/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Journal, openJournal, parseJournal } from '../../kernel/journal.ts'

let folder: string
let path: string
const warnings: string[] = []
const log: Log = { debug() {}, info() {}, error() {}, warn: message => void warnings.push(message) }
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-host-journal-'))
  path = join(folder, 'journal')
  warnings.length = 0
})
afterEach(() => rm(folder, { recursive: true }))

const begin = (journal: Journal, n: number) => journal.begin({ owner: 'me', kind: 'thing', record: { n } })
const numbers = (kept: readonly { record: Record<string, unknown> }[]) =>
  kept.map(({ record }) => record['n'])

/** Five records, the second struck out, the third amended; returns the file's text. */
async function fill(): Promise<string> {
  const journal = await openJournal(path, log)
  const ids: number[] = []
  for (let n = 1; n <= 5; n++) ids.push(await begin(journal, n))
  await journal.strike(ids[1]!)
  await journal.amend(ids[2]!, { pid: 7 })
  await journal.close()
  return readFile(path, 'utf8')
}

test('a record is on the disk once begin resolves, and comes back with its amendments', async () => {
  const journal = await openJournal(path, log)
  await begin(journal, 1)
  expect(await readFile(path, 'utf8')).toContain('"n":1')
  await journal.close()
  await fill()
  const again = await openJournal(path, log)
  expect(numbers(again.live())).toEqual([1, 1, 3, 4, 5])
  expect(again.live()[2]!.record).toEqual({ n: 3, pid: 7 })
  expect(warnings).toEqual([])
  await again.close()
})

test('cut anywhere, only the line that was cut is missing, and appending goes on', async () => {
  const text = await fill()
  const whole = parseJournal(text)
  expect(whole).toMatchObject({ torn: false, damaged: [] })
  for (let end = 0; end <= text.length; end++) {
    const cut = parseJournal(text.slice(0, end))
    const lines = text.slice(0, end).split('\n').length - 1
    expect(cut.damaged).toEqual([])
    expect(cut.torn).toBe(text[end - 1] !== '\n' && end > 0)
    expect(cut.live.length).toBe([0, 1, 2, 3, 4, 5, 4, 4][lines])
  }
  await writeFile(path, text.slice(0, text.length - 3))
  const journal = await openJournal(path, log)
  expect(warnings).toEqual([expect.stringContaining('was cut off while it was written')])
  await begin(journal, 6)
  await journal.close()
  expect(numbers(parseJournal(await readFile(path, 'utf8')).live)).toEqual([1, 3, 4, 5, 6])
})

test('a damaged line in the middle is skipped with a warning, and the file is kept aside', async () => {
  const text = await fill()
  const lines = text.split('\n')
  lines[3] = lines[3]!.replace('"n":4', '"n":9')
  await writeFile(path, lines.join('\n'))
  const journal = await openJournal(path, log)
  expect(numbers(journal.live())).toEqual([1, 3, 5])
  await journal.close()
  expect(warnings).toEqual([
    expect.stringMatching(/damaged in line 4: these effects are not undone; kept as/),
  ])
  const aside = (await readdir(folder)).find(name => name.includes('broken'))
  expect(await readFile(join(folder, aside!), 'utf8')).toBe(lines.join('\n'))
})

test('any bytes can be read, and one flipped byte never changes another line', async () => {
  const text = await fill()
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 300 }), noise => void parseJournal(noise)))
  const lines = text.trimEnd().split('\n')
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.integer({ min: 32, max: 126 }), (at, code) => {
      const other = text.slice(0, at) + String.fromCharCode(code) + text.slice(at + 1)
      const read = parseJournal(other)
      const without = lines.filter((_, index) => !read.damaged.includes(index + 1)).join('\n')
      if (other !== text && text[at] !== '\n') expect(read.damaged.length).toBe(1)
      if (text[at] !== '\n') expect(read.live).toEqual(parseJournal(`${without}\n`).live)
    }),
  )
})

test('many effects do not make the file grow, and what is live survives the rewriting', async () => {
  const journal = await openJournal(path, log)
  await begin(journal, 0)
  for (let n = 1; n <= 600; n++) await journal.strike(await begin(journal, n))
  await Promise.all([1001, 1002, 1003].map(n => begin(journal, n)))
  await journal.close()
  const text = await readFile(path, 'utf8')
  expect(text.split('\n').length).toBeLessThan(300)
  expect(numbers(parseJournal(text).live)).toEqual([0, 1001, 1002, 1003])
})
