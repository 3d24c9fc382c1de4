// What a package must be like to be installed; nothing of it is run.
import { readdir, readFile } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import { type Import, init, parse } from 'es-module-lexer'
import semver from 'semver'
import type { Examined } from 'svc-host/sdk'
import { z } from 'zod'
import { dependenciesRefused, missingDependencies, type Needs } from './dependencies.ts'
import { idOfPackage } from './spec.ts'
import { describeUnit, UnitFields } from './unit-package.ts'

const Names = z.record(z.string(), z.string()).default({})
const PackageJson = z.looseObject({
  name: z.string(),
  version: z.string().refine(text => semver.valid(text) !== null, 'must be a semantic version'),
  type: z.string().optional(),
  dependencies: Names,
  optionalDependencies: Names,
  peerDependencies: Names,
  bundleDependencies: z.unknown().optional(),
  bundledDependencies: z.unknown().optional(),
  scripts: Names,
  ...UnitFields,
})

export interface Inspected {
  readonly pkg: string
  readonly version: string
  readonly id: string
  readonly title: string
  /** `unit`: no extension; the plugin runner runs it. */
  readonly realm: 'kernel' | 'isolate' | 'process' | 'unit'
  readonly permissions: readonly string[]
  /** Packages that are to lie beside it and do not; with any of them all are fetched. */
  readonly missing: readonly string[]
  readonly needs: Pick<Needs, 'dependencies' | 'optionalDependencies'>
  readonly seal: string
}

export interface Report {
  /** Undefined where the package cannot even be named. */
  readonly found: Inspected | undefined
  /** Why it would be refused, a sentence each; empty: it can be installed. */
  readonly refusals: readonly string[]
  /** What an author may not expect. */
  readonly remarks: readonly string[]
}

/** What the host supplies in every realm. */
const supplied = /^(svc-host\/(sdk|api\/[a-z0-9-]+)|zod(\/[a-z0-9/-]+)?)$/
/** What it supplies where there is Node besides. */
const suppliedToNode = /^(node:[a-z/_-]+|svc-host\/(client|stream))$/
const runByInstall = ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish']

/** Why a bundle cannot run as it is: it imports what nobody supplies. */
export async function importsRefused(
  file: string,
  text: string,
  realm: string,
  /** What lies in the package or beside it. */
  own: (specifier: string) => boolean = () => false,
): Promise<string[]> {
  await init
  let imports: readonly Import[]
  try {
    ;[imports] = parse(text)
  } catch (error) {
    return [`${file} is not an ES module: ${(error as Error).message.split('\n')[0]}`]
  }
  const hasNode = realm !== 'isolate'
  const sentences = imports.flatMap(({ specifier: n }): string[] => {
    if (n === null) return []
    if (n === undefined)
      return hasNode
        ? []
        : [`${file} imports a name that is made up while it runs, which the ${realm} realm cannot`]
    if (supplied.test(n) || (hasNode && suppliedToNode.test(n)) || own(n)) return []
    const remedy = n.startsWith('.') ? 'bundle it into one file' : 'bundle it in, or do without'
    const why = /^node:/.test(n) ? `which the ${realm} realm does not have` : 'which the host does not supply'
    return [`${file} imports ${JSON.stringify(n)}, ${why}; ${remedy}`]
  })
  return [...new Set(sentences)]
}

const readText = (folder: string, name: string): Promise<string | undefined> =>
  readFile(join(folder, name), 'utf8').catch(() => undefined)

/** Reads an unpacked package. `examine` is the host's own look at an extension's folder. */
export async function inspect(
  folder: string,
  examine: (folder: string) => Promise<Examined>,
): Promise<Report> {
  const nothing = (why: string): Report => ({ found: undefined, refusals: [why], remarks: [] })
  const text = await readText(folder, 'package.json')
  if (text === undefined) return nothing('has no package.json')
  let raw: unknown
  try {
    raw = JSON.parse(text)
  } catch {
    return nothing('package.json is not JSON')
  }
  const parsed = PackageJson.safeParse(raw)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return nothing(`package.json: ${issue!.path.join('.')}: ${issue!.message}`)
  }
  const json = parsed.data
  const id = idOfPackage(json.name)
  const names = await readdir(folder, { recursive: true })
  const isUnit = !names.includes('extension.json')
  const { seal, ...examined } = await examine(folder)
  const { manifest, main, undo, problem } = isUnit ? describeUnit(json, id) : examined
  const isApart = manifest?.realm === 'process' || manifest?.realm === 'unit'
  const refusals: string[] = dependenciesRefused(json, isApart).map(why => `package.json ${why}`)
  if (id === undefined)
    refusals.push(`the package is named ${json.name}; a plugin is @scope/plugin-name or svc-plugin-name`)
  if (problem !== null) refusals.push(problem.replace(folder, '.'))
  if (manifest && id !== undefined && manifest.id !== id)
    refusals.push(`extension.json: id is "${manifest.id}", but the package ${json.name} holds "${id}"`)
  if (manifest && manifest.version !== json.version)
    refusals.push(
      `extension.json says version ${manifest.version}, package.json ${json.version}; make them equal`,
    )
  if (names.includes('node_modules') && !isApart)
    refusals.push('has a node_modules folder; a plugin is one bundle that holds what it needs')
  const beside = Object.keys({ ...json.dependencies, ...json.optionalDependencies })
  const isOwn = (specifier: string): boolean =>
    /^\.\.?\//.test(specifier)
      ? names.includes(normalize(specifier))
      : beside.some(name => specifier === name || specifier.startsWith(`${name}/`))
  for (const file of manifest ? [main, undo] : []) {
    if (file === undefined) continue
    const bundle = await readText(folder, file)
    if (bundle === undefined) refusals.push(`${file} is not in the package`)
    else if (!/\.m?js$/.test(file))
      refusals.push(`${file} must be JavaScript (.js); compile it before it is packed`)
    else if (file.endsWith('.js') && json.type !== 'module')
      refusals.push(`package.json needs "type": "module", since ${file} is an ES module`)
    else refusals.push(...(await importsRefused(file, bundle, manifest!.realm, isApart ? isOwn : undefined)))
  }
  const scripts = runByInstall.filter(name => json.scripts[name] !== undefined)
  const remarks = [
    ...(scripts.length ? [`its scripts (${scripts.join(', ')}) are never run by the host`] : []),
    ...(isUnit ? ['it has no extension.json: the plugin runner runs it, in a process of its own'] : []),
  ]
  const found = manifest &&
    id !== undefined && {
      pkg: json.name,
      version: json.version,
      id,
      title: manifest.title,
      realm: manifest.realm,
      permissions: manifest.permissions,
      missing: isApart ? await missingDependencies(folder, json) : [],
      needs: { dependencies: json.dependencies, optionalDependencies: json.optionalDependencies },
      seal,
    }
  return { found: found || undefined, refusals, remarks }
}
