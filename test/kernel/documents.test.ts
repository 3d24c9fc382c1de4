// Settings files: whole or not at all on disk, read as far as they make sense, nothing thrown away.
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { openDocument } from '../../kernel/documents.ts'
import { temporaryFolder } from './front-under-test.ts'

const Settings = z.object({
  version: z.literal(1).default(1),
  mode: z.enum(['auto', 'manual']).default('auto'),
  limit: z.number().default(4),
  label: z.string().optional(),
  rows: z.array(z.object({ id: z.string(), n: z.number().default(0) })).default([]),
})

async function open(content?: string) {
  const path = join(temporaryFolder(), 'settings.json')
  if (content !== undefined) writeFileSync(path, content)
  const warnings: string[] = []
  const file = await openDocument(path, Settings, message => warnings.push(message))
  const stored = () => JSON.parse(readFileSync(path, 'utf8'))
  return { path, file, warnings, stored, names: () => readdirSync(dirname(path)) }
}

test('a missing file reads as defaults, and a write makes it owner-only', async () => {
  const { path, file, warnings, stored } = await open()
  expect([file.exists, file.value.mode, warnings]).toEqual([false, 'auto', []])
  await file.write({ ...file.value, mode: 'manual' })
  expect([file.exists, file.value.mode, stored().mode]).toEqual([true, 'manual', 'manual'])
  expect(statSync(path).mode & 0o777).toBe(0o600)
})

test('what a crash in the middle of a write has left goes, and nothing else beside the file', async () => {
  const { path, file, names } = await open('{"mode":"manual"}')
  expect(file.value.mode).toBe('manual')
  const beside = ['.1234567', '.1234567x', '.broken-2026', 'x.12'].map(end => `${path}${end}`)
  for (const each of beside) writeFileSync(each, 'x')
  await openDocument(path, Settings, () => {})
  expect(names()).toEqual(['settings.json', ...beside.slice(1).map(each => basename(each))].sort())
})

test('a broken file is kept aside, warned of, and read as defaults', async () => {
  for (const content of ['{"mode":', '[1]', '"text"', '', '\0\0\0']) {
    const { file, warnings, names } = await open(content)
    expect(file.value).toEqual(Settings.parse({}))
    expect(warnings).toEqual([
      expect.stringMatching(/^settings\.json cannot be read; it was kept as settings\.json\.broken-/),
    ])
    expect(names()).toEqual([expect.stringMatching(/^settings\.json\.broken-/)])
  }
})

test('what does not fit is left out piece by piece, with a copy of the file', async () => {
  const rows = [{ id: 'a', n: 1 }, { id: 2 }, { id: 'c', n: 'x' }]
  const { file, warnings, names } = await open(JSON.stringify({ mode: 'fast', limit: 9, rows }))
  expect(file.value).toEqual({
    version: 1,
    mode: 'auto',
    limit: 9,
    rows: [
      { id: 'a', n: 1 },
      { id: 'c', n: 0 },
    ],
  })
  expect(warnings).toEqual([
    expect.stringMatching(
      /left out what does not fit \(mode, rows\.1\.id.*a copy is settings\.json\.broken-/,
    ),
  ])
  expect(names().length).toBe(2)
})

test('a newer file loads with a warning, and its unknown keys survive a write', async () => {
  const { file, warnings, stored } = await open('{"version":2,"limit":7,"colour":"red","label":"x"}')
  expect(file.value.limit).toBe(7)
  expect(warnings[0]).toMatch(/is of version 2 and this host knows 1/)
  const { label: _, ...rest } = file.value
  await file.write({ ...rest, limit: 8 })
  expect(stored()).toEqual({ version: 1, mode: 'auto', limit: 8, rows: [], colour: 'red' })
})

test('writes are serialised, and memory changes only after the disk has', async () => {
  const { path, file, stored } = await open()
  const writes = Array.from({ length: 20 }, (_, limit) => file.write({ ...file.value, limit }))
  expect(file.value.limit).toBe(4)
  await Promise.all(writes)
  expect([file.value.limit, stored().limit]).toEqual([19, 19])

  mkdirSync(join(dirname(path), 'aside'))
  const blocked = await openDocument(join(path, 'below-a-file.json'), Settings, () => {}).catch(
    error => error,
  )
  expect(blocked).toBeInstanceOf(Error)
  const orphan = await openDocument(join(dirname(path), 'aside', 'x.json'), Settings, () => {})
  chmodSync(dirname(path), 0o700)
  const before = orphan.value
  writeFileSync(join(dirname(path), 'plain'), '')
  const broken = await openDocument(join(dirname(path), 'aside', 'x.json'), Settings, () => {})
  mkdirSync(join(dirname(path), 'aside', 'x.json'))
  await expect(broken.write({ ...before, limit: 1 })).rejects.toThrow()
  expect([broken.value.limit, broken.exists]).toEqual([4, false])
})

test('any file at all loads without an exception', async () => {
  const path = join(temporaryFolder(), 'settings.json')
  const almost = fc.record(
    {
      version: fc.jsonValue(),
      mode: fc.jsonValue(),
      limit: fc.jsonValue(),
      rows: fc.array(fc.jsonValue()),
      label: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        fc.json(),
        almost.map(value => JSON.stringify(value)),
      ),
      async content => {
        writeFileSync(path, content)
        const file = await openDocument(path, Settings, () => {})
        expect(Settings.safeParse(file.value).success).toBe(true)
      },
    ),
    { numRuns: 150 },
  )
})
