// What every extension promises by being one: the same table of checks over each that is found in extensions/. Each
// check opens with its reason and, where there is one, its exception.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import semver from 'semver'
import * as sdk from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { type Found, type Manifest, readExtension } from '../../kernel/discover.ts'

const root = 'extensions'
const folders = readdirSync(root, { withFileTypes: true }).filter(entry => entry.isDirectory())

interface Subject {
  readonly id: string
  readonly folder: string
  readonly found: Found
  readonly manifest: Manifest
  readonly extension: sdk.Extension
  /** What `api.ts` exports; nothing without one. */
  readonly api: Record<string, unknown>
  readonly readme: string
}

async function read(name: string): Promise<Subject> {
  const folder = join(root, name)
  const found = await readExtension(folder, name, true)
  if (!found.manifest) throw new Error(`${name}: ${found.problem}`)
  const load = (file: string) => import(pathToFileURL(join(folder, file)).href)
  const text = (file: string): string =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8') : ''
  return {
    id: name,
    folder,
    found,
    manifest: found.manifest,
    extension: await found.load(),
    api: existsSync(join(folder, 'api.ts')) ? await load('api.ts') : {},
    readme: text('README.md'),
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null
const isToken = (value: unknown): value is sdk.Token<unknown> =>
  isRecord(value) && typeof value['id'] === 'string' && typeof value['version'] === 'string'
const isEvent = (value: unknown): value is sdk.EventKind =>
  isRecord(value) && typeof value['kind'] === 'string' && 'payload' in value
const isHook = (value: unknown): value is sdk.HookPoint<unknown> =>
  isRecord(value) && typeof value['limitMs'] === 'number' && 'onFailure' in value

const settled = await Promise.allSettled(folders.map(({ name }) => read(name)))
const subjects = settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
const kernelTokens = Object.values<unknown>(sdk).filter(isToken)

/** Sections of a README by their headings. */
const sections = (readme: string): Map<string, string> =>
  new Map(
    readme
      .split(/^## /m)
      .slice(1)
      .map(part => [part.split('\n', 1)[0]!.trim(), part.slice(part.indexOf('\n') + 1).trim()] as const),
  )

const shapeOf = (schema: unknown): Record<string, z.ZodType> =>
  schema instanceof z.ZodObject ? (schema.shape as Record<string, z.ZodType>) : {}

const checks: Record<string, (subject: Subject) => void | Promise<void>> = {
  // Reason: what the loader refuses is found here, not on a user's machine.
  'the manifest is sound and this host can run it': ({ found }) => {
    expect(found.problem).toBeUndefined()
    expect(found.manifest!.realm).toBe('kernel')
  },

  // Reason: whoever knows one folder knows all. Exception: no api.ts where nothing is offered, no routes.ts without
  // routes.
  'the folder has the files that every extension has': ({ folder, id }) => {
    for (const file of ['extension.json', 'index.ts', 'README.md'])
      expect(existsSync(join(folder, file)), file).toBe(true)
    const tests = readdirSync(folder).filter(name => name.endsWith('.test.ts'))
    const elsewhere = existsSync(`test/e2e/${id}.test.ts`)
    expect(tests.length > 0 || elsewhere, 'a test beside the code').toBe(true)
  },

  // Reason: wiring that holds logic is logic that no test reaches.
  'index.ts only wires, in 60 lines': ({ folder }) => {
    expect(readFileSync(join(folder, 'index.ts'), 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(
      60,
    )
  },

  // Reason: a host without any config must start.
  'the config has a default for everything, and can be drawn as a form': ({ extension }) => {
    if (!extension.config) return
    expect(() => extension.config!.parse({})).not.toThrow()
    expect(() => z.toJSONSchema(extension.config!, { io: 'input' })).not.toThrow()
  },

  // Reason: a setting that leads nowhere is accepted and does nothing.
  'each setting sets a place that the config has': ({ extension, manifest }) => {
    for (const [name, setting] of Object.entries(manifest.settings)) {
      const [head = '', ...rest] = (setting.config ?? name).split('.')
      let schema: unknown = shapeOf(extension.config)[head]
      for (const key of rest) {
        while (schema instanceof z.ZodDefault || schema instanceof z.ZodOptional) schema = schema.unwrap()
        schema = shapeOf(schema)[key]
      }
      expect(schema, `setting ${name}`).toBeDefined()
    }
  },

  // Reason: the manifest is what others resolve against without running the code.
  'what the code requires, the manifest names, in a range that the token is in': ({
    extension,
    manifest,
  }) => {
    const deps = Object.values<sdk.Token<unknown>>(extension.deps ?? {})
    expect(deps.map(({ id }) => id).sort()).toEqual(Object.keys(manifest.requires).sort())
    for (const { id, version } of deps)
      expect(semver.satisfies(version, manifest.requires[id]!), id).toBe(true)
  },

  // Reason: a service without a published token can only be used by guessing. Exception: the kernel asks for some by
  // tokens of its own, which the SDK publishes.
  'what the manifest provides, a published token stands for, in the same version': ({ api, manifest }) => {
    const tokens = new Map(
      [...kernelTokens, ...Object.values(api).filter(isToken)].map(t => [t.id, t.version]),
    )
    for (const [id, version] of Object.entries(manifest.provides)) expect(tokens.get(id), id).toBe(version)
  },

  // Reason: a range that nobody is in waits for ever. Exception: an optional service may belong to a stranger.
  'what is required, somebody here provides': ({ manifest }) => {
    const offers = new Map(kernelTokens.map(({ id, version }) => [id, version]))
    for (const { manifest: other } of subjects)
      for (const [id, version] of Object.entries(other.provides)) offers.set(id, version)
    for (const [id, range] of Object.entries(manifest.requires))
      expect(semver.satisfies(offers.get(id) ?? '0.0.0', range), `${id} ${range}`).toBe(true)
  },

  // Reason: names are how the wire, hooks and filters speak of these. Exception: none.
  'events are domain.happened and hook points noun.verb, each in its owner’s api.ts once': ({ api }) => {
    const names = [
      ...Object.values(api)
        .filter(isEvent)
        .map(e => e.kind),
      ...Object.values(api)
        .filter(isHook)
        .map(h => h.id),
    ]
    for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+$/)
    expect(new Set(names).size).toBe(names.length)
  },

  // Reason: a command that does not load is found out by the one who needs it.
  'each command’s module loads and can be run': async ({ folder, manifest }) => {
    for (const { module } of manifest.commands) {
      const { default: command } = await import(pathToFileURL(join(folder, module)).href)
      expect(typeof command?.run, module).toBe('function')
    }
  },

  // Reason: after a crash the undo module runs alone, long before, or without, its extension.
  'the undo module loads alone and knows how to undo each kind': async ({ folder, found }) => {
    if (!found.loadUndo) return
    for (const [kind, { undo }] of Object.entries(await found.loadUndo()))
      expect(typeof undo, kind).toBe('function')
    const source = readFileSync(join(folder, found.manifest!.undo ?? 'undo.ts'), 'utf8')
    const own = [...source.matchAll(/^import (?!type )[^'"]*['"](\.[^'"]+)['"]/gm)].map(match => match[1])
    expect(own, 'imports of its own extension').not.toContain('./index.ts')
  },

  // Reason: the same six questions everywhere, so that answers are found.
  'the README answers the six questions, in their order': ({ readme }) => {
    expect([...sections(readme).keys()]).toEqual([
      'What',
      'Services',
      'Events',
      'Hooks',
      'Config',
      'On disable',
    ])
    for (const [heading, text] of sections(readme)) expect(text, heading).not.toBe('')
  },

  // Reason: a README that leaves out what others may use is one that nobody trusts.
  'the README names every service, event, hook point and config key': ({
    api,
    extension,
    manifest,
    readme,
  }) => {
    const parts = sections(readme)
    const named: [string, string[]][] = [
      [
        'Services',
        [
          ...Object.keys(manifest.provides),
          ...Object.keys(manifest.requires),
          ...Object.keys(manifest.optional),
        ],
      ],
      [
        'Events',
        Object.values(api)
          .filter(isEvent)
          .map(({ kind }) => kind),
      ],
      [
        'Hooks',
        Object.values(api)
          .filter(isHook)
          .map(({ id }) => id),
      ],
      [
        'Config',
        [
          ...Object.keys(shapeOf(extension.config)),
          ...Object.values(manifest.settings).flatMap(({ flag, env }) => [
            ...(flag ? [`--${flag}`] : []),
            ...(env ? [env] : []),
          ]),
        ],
      ],
    ]
    const missing = named.flatMap(([heading, names]) =>
      names.filter(name => !parts.get(heading)?.includes(name)).map(name => `${heading}: ${name}`),
    )
    expect(missing).toEqual([])
  },
}

test('every folder is an extension that loads', () => {
  expect(subjects.length).toBeGreaterThanOrEqual(5)
  const broken = settled.flatMap((each, i) =>
    each.status === 'rejected' ? [`${folders[i]!.name}: ${each.reason.message}`] : [],
  )
  expect(broken).toEqual([])
})

for (const subject of subjects)
  for (const [title, check] of Object.entries(checks)) test(`${subject.id}: ${title}`, () => check(subject))

// Reason: the first one found would win in silence.
test('services, flags, variables, commands, events and hook points belong to one extension each', () => {
  const claims = subjects.flatMap(({ id, manifest, api }) => [
    ...Object.keys(manifest.provides).map(name => [`service ${name}`, id]),
    ...manifest.commands.map(({ name }) => [`command ${name}`, id]),
    ...Object.values(manifest.settings).flatMap(({ flag, env }) => [
      ...(flag ? [[`flag --${flag}`, id]] : []),
      ...(env ? [[`variable ${env}`, id]] : []),
    ]),
    ...Object.values(api)
      .filter(isEvent)
      .map(({ kind }) => [`event ${kind}`, id]),
    ...Object.values(api)
      .filter(isHook)
      .map(point => [`hook point ${point.id}`, id]),
  ])
  const owners = Map.groupBy(claims, ([claim]) => claim)
  expect([...owners.values()].filter(claimants => claimants.length > 1)).toEqual([])
})
