// Undo modules of installed packages: they run in the host's process only where the operator trusted the package, and only
// while it holds what it held.
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { sealOf } from '../../kernel/examine.ts'
import { openJournal } from '../../kernel/journal.ts'
import { createGuests, type Guests } from '../harness/guests.ts'

let guests: Guests
let configDir: string
beforeEach(async () => {
  guests = createGuests()
  configDir = await mkdtemp(join(tmpdir(), 'svc-undo-'))
})
afterEach(async () => {
  await guests.remove()
  await rm(configDir, { recursive: true })
})

/** Leaves one file as soon as it is loaded, and another when it takes something back. */
const undoModule = (mark: string): string => `import { writeFileSync } from 'node:fs'
writeFileSync(${JSON.stringify(`${mark}.loaded`)}, '')
export default { thing: { undo: () => writeFileSync(${JSON.stringify(`${mark}.undone`)}, '') } }`

test('a sandboxed package’s undo module is not loaded, and not one that it names', async () => {
  const mark = join(configDir, 'mark')
  const quiet = await guests.setup('quiet', '')
  await writeFile(join(quiet, 'undo.js'), undoModule(mark))
  const loud = await guests.setup('loud', '', { undo: 'undo.js' })
  await writeFile(join(loud, 'undo.js'), undoModule(mark))
  const host = await startHost({ extensions: [quiet, loud], mayBeOff: true })
  expect(host.extensions.list().map(({ id, state, why }) => [id, state, why])).toEqual([
    ['quiet', 'on', null],
    [
      'loud',
      'failed',
      'has an undo module, which the isolate realm does not run; leave "undo" out of extension.json',
    ],
  ])
  await host.stop()
  expect(existsSync(`${mark}.loaded`)).toBe(false)
})

test.each([
  ['nobody trusts it', { trusted: [] }, false, /stranger is not trusted in the host's own process/],
  ['its files have changed', { trusted: ['stranger'] }, true, /its files are not those that were installed/],
  ['it is trusted and whole', { trusted: ['stranger'] }, false, undefined],
])('what it left behind after a crash: %s', async (_, decisions, hasChanged, refusal) => {
  const mark = join(configDir, 'mark')
  const folder = await guests.setup('stranger', '', { realm: 'kernel' })
  const undoFile = join(folder, 'undo.js')
  await writeFile(undoFile, undoModule(mark))
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const journal = await openJournal(join(configDir, 'journal'), log)
  const installed = { folder, seal: await sealOf(folder) }
  await journal.begin({ owner: 'stranger', kind: 'thing', undoFile, installed, record: { a: 1 } })
  await journal.close()
  await writeFile(join(configDir, 'extensions.json'), JSON.stringify(decisions))
  if (hasChanged) await writeFile(join(folder, 'index.js'), 'export default 1')
  const host = await startHost({ extensions: [], configDir })
  const refused = host.logs.filter(({ msg }) => msg.startsWith('could not undo')).map(({ msg }) => msg)
  await host.stop()
  expect(existsSync(`${mark}.loaded`)).toBe(refusal === undefined)
  expect(existsSync(`${mark}.undone`)).toBe(refusal === undefined)
  if (refusal) expect(refused.join()).toMatch(refusal)
})
