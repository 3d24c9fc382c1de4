// Who may import whom. Reason: layers that only exist on paper are gone in a month. Exception: tests, which may
// import everything.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type Import, importsOf, isTest, packageOf, readSources } from './sources.ts'

const sources = readSources('sdk', 'kernel', 'extensions', 'native', 'examples', 'test')
const imports = sources.flatMap(importsOf)

const folderOf = (path: string): string => path.split('/').slice(0, 2).join('/')
const isSdk = (to: string): boolean => to.startsWith('sdk/')
const isApi = (to: string): boolean => /^extensions\/[^/]+\/api\.ts$/.test(to)
const isNode = (to: string): boolean => to.startsWith('node:')
const isNative = (to: string): boolean => /^native\/([^/]+\/)?index\.ts$/.test(to)
const isOneOf = (to: string, ...names: string[]): boolean => names.includes(packageOf(to) ?? '')
const isNoble = (to: string): boolean => /^@noble\/(curves|hashes)(\/|$)/.test(to)

/** What a built-in may use besides zod. Each is its own: no two parts of the host share a package behind the scenes. */
const packagesOfExtension: Record<string, string[]> = {
  'extensions/catalog': ['semver'],
  'extensions/ctl': ['commander'],
  'extensions/discovery': ['commander'],
  'extensions/host-setup': ['commander'],
  'extensions/mdns': ['@homebridge/ciao'],
  'extensions/native-plane': ['@noble/curves'],
  'extensions/pairing': ['@noble/curves'],
  'extensions/plugins': ['commander', 'es-module-lexer', 'semver', 'tar'],
}
const kernelPackages =
  'fastify zod pino semver tapable isolated-vm write-file-atomic commander @peculiar/x509 reflect-metadata'.split(
    ' ',
  )

/** The table: the first row whose pattern matches the importing file says what it may import. */
const table: readonly [from: RegExp, may: (i: Import) => boolean][] = [
  // Starting a host for a test is what this part is for.
  [/^sdk\/testing\//, ({ to }) => isSdk(to) || isNode(to) || isOneOf(to, 'zod') || to.startsWith('kernel/')],
  // The program of the process realm.
  [/^sdk\/realm\/process-main\.ts$/, ({ to }) => isSdk(to) || isNode(to)],
  [/^sdk\/stream\//, ({ to }) => isSdk(to) || isNode(to) || isNoble(to) || isOneOf(to, 'zod')],
  [/^sdk\/egress\//, ({ to }) => isSdk(to) || isNode(to) || isOneOf(to, 'zod')],
  [/^sdk\/client\//, ({ to }) => isSdk(to) || isNode(to) || isOneOf(to, 'zod')],
  [
    /^sdk\//,
    ({ to, isTypeOnly }) =>
      isSdk(to) || isOneOf(to, 'zod') || (isTypeOnly && (isOneOf(to, 'pino') || isNode(to))),
  ],
  [
    /^kernel\//,
    ({ to }) =>
      isSdk(to) ||
      to.startsWith('kernel/') ||
      to === 'package.json' ||
      isNode(to) ||
      isOneOf(to, ...kernelPackages),
  ],
  [
    /^extensions\/[^/]+\/api\.ts$/,
    ({ from, to, isTypeOnly }) =>
      isSdk(to) || isOneOf(to, 'zod') || to === `${folderOf(from)}/schema.ts` || (isTypeOnly && isApi(to)),
  ],
  [
    /^extensions\//,
    ({ from, to }) =>
      isSdk(to) ||
      isApi(to) ||
      isNode(to) ||
      isOneOf(to, 'zod', ...(packagesOfExtension[folderOf(from)] ?? [])) ||
      (to.startsWith(`${folderOf(from)}/`) && existsSync(to)) ||
      (from.endsWith('/native.ts') && isNative(to)),
  ],
  [
    /^native\//,
    ({ to, isTypeOnly }) =>
      isNode(to) || (to.startsWith('native/') && existsSync(to)) || (isTypeOnly && isOneOf(to, 'zod')),
  ],
  [
    /^examples\//,
    ({ from, to }) =>
      isSdk(to) ||
      isApi(to) ||
      isNative(to) ||
      to.startsWith(`${folderOf(from)}/`) ||
      packageOf(to) !== undefined,
  ],
]

test('the files were really read', () => {
  // A table that reads nothing reports success; raise these as the folders grow.
  for (const [top, floor] of Object.entries({ sdk: 10, kernel: 10, extensions: 5 })) {
    expect(sources.filter(({ path }) => path.startsWith(`${top}/`)).length, top).toBeGreaterThanOrEqual(floor)
  }
  expect(imports.length).toBeGreaterThan(sources.length / 2)
})

test('nobody imports what the table does not allow', () => {
  const refused = imports.filter(i => !isTest(i.from) && !table.find(([from]) => from.test(i.from))?.[1](i))
  expect(refused.map(({ from, to }) => `${from} must not import ${to}`)).toEqual([])
})

test('extensions reach the SDK and each other by published name, never by a path', () => {
  const byPath = sources.filter(
    ({ path, text }) =>
      /^(extensions|examples)\//.test(path) && !isTest(path) && /from '[./]*\.\.\/(sdk|kernel)\//.test(text),
  )
  expect(byPath.map(({ path }) => path)).toEqual([])
})

test('no cycles', () => {
  const edges = Map.groupBy(
    imports.filter(i => !i.isTypeOnly),
    i => i.from,
  )
  const done = new Set<string>()
  const cycles: string[] = []
  const walk = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path)
    if (at >= 0) cycles.push([...trail.slice(at), path].join(' -> '))
    if (at >= 0 || done.has(path)) return
    for (const { to } of edges.get(path) ?? []) walk(to, [...trail, path])
    done.add(path)
  }
  for (const { path } of sources) walk(path, [])
  expect(cycles).toEqual([])
})
