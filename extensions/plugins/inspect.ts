// What a package must be like to be installed; nothing of it is run.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import semver from 'semver'
import type { Examined } from 'svc-host/sdk'
import { z } from 'zod'
import { dependenciesRefused, missingDependencies, type Needs } from './dependencies.ts'
import { importsRefused } from './imports.ts'
import { pointAt } from './lines.ts'
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

const runByInstall = ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish']

const readText = (folder: string, name: string): Promise<string | undefined> =>
  readFile(join(folder, name), 'utf8').catch(() => undefined)

/** What the host says of the manifest, place by place. */
const explain = async (folder: string, problem: string): Promise<string[]> =>
  pointAt(problem.replace(folder, '.'), 'extension.json', (await readText(folder, 'extension.json')) ?? '')

/** Reads an unpacked package. `examine` is the host's own look at an extension's folder. */
export async function inspect(
  folder: string,
  examine: (folder: string) => Promise<Examined>,
): Promise<Report> {
  const nothing = async (...whys: string[]): Promise<Report> => {
    const { problem } = await examine(folder)
    const isUnit = (await readText(folder, 'extension.json')) === undefined
    const more = problem === null || isUnit ? [] : await explain(folder, problem)
    return { found: undefined, refusals: [...whys, ...more], remarks: [] }
  }
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
    const whys = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
    return nothing(...pointAt(`package.json: ${whys.join('; ')}`, 'package.json', text))
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
  if (problem !== null) refusals.push(...(await explain(folder, problem)))
  if (manifest && id !== undefined && manifest.id !== id)
    refusals.push(`extension.json: id is "${manifest.id}", but the package ${json.name} holds "${id}"`)
  if (manifest && manifest.version !== json.version)
    refusals.push(
      `extension.json says version ${manifest.version}, package.json ${json.version}; make them equal`,
    )
  if (names.includes('node_modules') && !isApart)
    refusals.push('has a node_modules folder; a plugin is one bundle that holds what it needs')
  const beside = Object.keys({ ...json.dependencies, ...json.optionalDependencies })
  const hasPackage = (name: string): boolean =>
    isApart && beside.some(each => name === each || name.startsWith(`${each}/`))
  for (const file of manifest ? [main, undo] : []) {
    if (file === undefined) continue
    if (!names.includes(file)) refusals.push(`${file} is not in the package`)
    else if (!/\.m?js$/.test(file))
      refusals.push(`${file} must be JavaScript (.js); compile it before it is packed`)
    else if (file.endsWith('.js') && json.type !== 'module')
      refusals.push(`package.json needs "type": "module", since ${file} is an ES module`)
    else refusals.push(...(await importsRefused(folder, file, { realm: manifest!.realm, hasPackage })))
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
