// Plugin packages that are no extensions: named as such in the ledger of what is installed, and without a manifest.
import { existsSync } from 'node:fs'
import { readdir, readFile, realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { type Candidate, type Refusal, worldWritable } from './candidate.ts'

const Ledger = z.looseObject({
  dependencies: z.record(z.string(), z.string()).default({}),
  seals: z.record(z.string(), z.record(z.string(), z.string())).default({}),
})
const PackageJson = z.looseObject({
  version: z.string().optional(),
  main: z.string().default('index.js'),
  'svc-host': z.looseObject({ permissions: z.array(z.string()).default([]) }).default({ permissions: [] }),
})

/** `@scope/plugin-name` and `svc-plugin-name` are the unit `name`. */
export const idOfPackage = (pkg: string): string | undefined =>
  /^(?:@[^/]+\/plugin-|svc-plugin-)([a-z][a-z0-9]*(?:-[a-z0-9]+)*)$/.exec(pkg)?.[1]

export interface FoundPackages {
  readonly candidates: readonly Candidate[]
  readonly refusals: readonly Refusal[]
  /** Ids of installed extensions, which are not ours. */
  readonly extensions: readonly string[]
}

async function readJson<S extends z.ZodType>(file: string, schema: S): Promise<z.output<S>> {
  try {
    return schema.parse(JSON.parse(await readFile(file, 'utf8')))
  } catch (error) {
    throw new Error(`${file} cannot be used: ${(error as Error).message}`)
  }
}

/** Reads one package; everything below its folder is what it may load, and so must be nobody else's to write. */
async function readPackage(id: string, folder: string, seal: string | undefined): Promise<Candidate> {
  const { version, main, 'svc-host': own } = await readJson(join(folder, 'package.json'), PackageJson)
  const file = resolve(folder, main)
  if (!file.startsWith(`${folder}/`)) throw new Error(`main "${main}" leads out of the package`)
  if (!existsSync(file)) throw new Error(`main "${main}" is not in the package; install it again`)
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter(each => !each.isSymbolicLink()).map(each => join(each.parentPath, each.name))
  const open = await worldWritable([folder, ...paths])
  if (open !== undefined)
    throw new Error(
      `can be changed by everybody, since ${open} is world-writable; run chmod -R o-w ${folder}`,
    )
  const optional = { ...(version !== undefined && { version }), ...(seal !== undefined && { seal }) }
  return { id, kind: 'package', file, folder, asked: [...new Set(own.permissions)], ...optional }
}

/** The plugin packages that the folder's `package.json` names, where npm or the host has put them. */
export async function findPackages(pluginsDir: string): Promise<FoundPackages> {
  const ledgerFile = join(pluginsDir, 'package.json')
  const candidates: Candidate[] = []
  const refusals: Refusal[] = []
  const extensions: string[] = []
  const nothing: z.output<typeof Ledger> = { dependencies: {}, seals: {} }
  const ledger = existsSync(ledgerFile)
    ? await readJson(ledgerFile, Ledger).catch((error: Error) => {
        refusals.push({ id: 'installed-packages', kind: 'package', file: ledgerFile, why: error.message })
        return nothing
      })
    : nothing
  for (const [pkg, wanted] of Object.entries(ledger.dependencies)) {
    const id = idOfPackage(pkg)
    if (id === undefined) continue
    const places = [join(pluginsDir, '.versions', id, wanted), join(pluginsDir, 'node_modules', pkg)]
    const place = places.find(each => existsSync(join(each, 'package.json')))
    if (places.some(each => existsSync(join(each, 'extension.json')))) {
      extensions.push(id)
      continue
    }
    try {
      if (!place) throw new Error(`package ${pkg} is not there; install it again`)
      candidates.push(await readPackage(id, await realpath(place), ledger.seals[pkg]?.[wanted]))
    } catch (error) {
      refusals.push({ id, kind: 'package', file: place ?? places[0]!, why: (error as Error).message })
    }
  }
  return { candidates, refusals, extensions }
}
