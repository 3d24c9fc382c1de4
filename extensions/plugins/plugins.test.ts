// The `plugins` command against a running host: the table, switching, and what it says about those that follow.
import { defineExtension, token } from 'svc-host/sdk'
import { type InlineExtension, startHost, type TestHost } from 'svc-host/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type as typeAt } from '../../test/harness/command-line.ts'

const Lamp = token<object>('test.lamp', '1.0.0')
const lamp: InlineExtension = {
  manifest: { id: 'lamp', title: 'Lamp', provides: { 'test.lamp': '1.0.0' } },
  extension: defineExtension({ setup: ctx => ctx.provide(Lamp, {}) }),
}
const reader: InlineExtension = {
  manifest: { id: 'reader', requires: { 'test.lamp': '^1.0.0' } },
  extension: defineExtension({ deps: { lamp: Lamp }, setup() {} }),
}
const broken: InlineExtension = {
  manifest: { id: 'broken' },
  extension: defineExtension({
    setup() {
      throw new Error('no bulb')
    },
  }),
}

let host: TestHost
beforeEach(async () => {
  host = await startHost({ extensions: ['plugins', lamp, reader, broken] })
})
afterEach(() => host.stop())

const type = (line: string) => typeAt(host.configDir, ...line.split(' '))

test('the list shows every extension, and a sentence for each that is not on', async () => {
  const { code, out } = await type('plugins list')
  expect(code).toBe(0)
  const rows = out.split('\n').map(row => row.split(/ {2,}/))
  expect(rows[0]).toEqual(['ID', 'STATE', 'VERSION', 'FROM', 'WHY'])
  expect(rows).toContainEqual(['lamp', 'on', '1.0.0', 'built in', 'Lamp'])
  expect(rows).toContainEqual(['broken', 'failed', '1.0.0', 'built in', expect.stringContaining('no bulb')])
  expect(out).toMatch(/\n3 of 4 are on\.\n$/)

  const listed = JSON.parse((await type('plugins list --json')).out)
  expect(listed).toEqual({ v: 1, data: (await host.inject('GET', '/extensions')).json })
})

test('switching off says who waits for it, and switching on who is back', async () => {
  const off = await type('plugins disable lamp')
  expect(off).toMatchObject({ code: 0, err: '' })
  expect(off.out.split('\n')).toEqual([
    'lamp is off.',
    expect.stringMatching(
      /^reader is waiting: needs service test\.lamp \^1\.0\.0 of lamp, which is switched off\.$/,
    ),
    '',
  ])
  expect(host.extensions.list().find(({ id }) => id === 'reader')?.state).toBe('waiting')
  expect((await type('plugins enable lamp')).out).toBe('lamp is on.\nreader is on.\n')
})

test('what does not come on is exit code 1 with its reason', async () => {
  expect(await type('plugins enable broken')).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^broken is failed: .*no bulb/),
  })
})

test('an unknown extension is refused by name; wrong usage is exit code 2', async () => {
  expect(await type('plugins disable lmap')).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('lmap'),
  })
  expect(await type('plugins lst')).toMatchObject({
    code: 2,
    err: expect.stringContaining('Did you mean list?'),
  })
  expect(await type('plugins enable')).toMatchObject({ code: 2 })
  const enveloped = await type('plugins enable nobody --json')
  expect(enveloped).toMatchObject({ code: 1, err: '' })
  expect(JSON.parse(enveloped.out)).toMatchObject({ v: 1, error: { code: 'refused' } })
})
