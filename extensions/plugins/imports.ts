// What a package's modules import, from the main one through all of its own: everything has to be there when it runs.
import { readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { init, parse } from 'es-module-lexer'

/** What the host supplies in every realm. */
const supplied = /^(svc-host\/(sdk|api\/[a-z0-9-]+)|zod(\/[a-z0-9/-]+)?)$/
/** What it supplies where there is Node besides. */
const suppliedToNode = /^(node:[a-z0-9/_-]+|svc-host\/(client|stream))$/
/** More files than this are no plugin. */
const fileLimit = 2000

export interface Surroundings {
  readonly realm: string
  /** Whether a package lies beside this one. */
  readonly hasPackage?: (name: string) => boolean
}

interface Module {
  readonly refusals: readonly string[]
  /** Files of the package itself, as paths in it. */
  readonly own: readonly string[]
  readonly hasDefault: boolean
}

const lineOf = (text: string, at: number): number => text.slice(0, at).split('\n').length

/** One module's text; `file` is its path in the package. */
export async function readModule(
  file: string,
  text: string,
  { realm, hasPackage = () => false }: Surroundings,
): Promise<Module> {
  await init
  const hasNode = realm !== 'isolate'
  const refusals = new Set<string>()
  const own: string[] = []
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(text, file)
  } catch (error) {
    const why = (error as Error).message.split('\n')[0]
    return { refusals: [`${file} is not an ES module: ${why}`], own, hasDefault: true }
  }
  const [imports, exports] = parsed
  for (const { specifier, importStart } of imports) {
    const place = `${file}:${lineOf(text, importStart)}`
    if (specifier === null) continue
    if (specifier === undefined) {
      if (!hasNode)
        refusals.add(`${place} imports a name that is made up while it runs, which the ${realm} realm cannot`)
      continue
    }
    const shown = JSON.stringify(specifier)
    if (supplied.test(specifier) || (hasNode && (suppliedToNode.test(specifier) || hasPackage(specifier))))
      continue
    if (/^\.\.?\//.test(specifier)) {
      const path = normalize(join(dirname(file), specifier))
      if (path.startsWith('..'))
        refusals.add(`${place} imports ${shown}, which leads out of the package; bring it inside`)
      else own.push(path)
    } else {
      refusals.add(
        `${place} imports ${shown}, ${
          suppliedToNode.test(specifier)
            ? `which the ${realm} realm does not have; do without, or set "realm": "process" in extension.json`
            : 'which the host does not supply; bundle it in, or do without'
        }`,
      )
    }
  }
  return {
    refusals: [...refusals],
    own,
    hasDefault: exports.some(each => 'name' in each && each.name === 'default'),
  }
}

/** Why a package cannot run from this main module on: a sentence for each line that is in the way. */
export async function importsRefused(folder: string, main: string, around: Surroundings): Promise<string[]> {
  const refusals: string[] = []
  const seen = new Map<string, string>([[main, main]])
  for (const [file, importer] of seen) {
    const text = await readFile(join(folder, file), 'utf8').catch(() => undefined)
    if (text === undefined) {
      const remedy = /\.m?js$/.test(file)
        ? 'name it under "files" in package.json'
        : 'name the .js file that is packed'
      refusals.push(`${importer} imports ${file}, which is not in the package; ${remedy}`)
      continue
    }
    if (/\.(json|node)$/.test(file) && around.realm !== 'isolate') continue
    const module = await readModule(file, text, around)
    refusals.push(...module.refusals)
    if (file === main && !module.hasDefault && around.realm !== 'unit')
      refusals.push(`${file} has no default export; it takes one, made by defineExtension or defineUndo`)
    if (seen.size <= fileLimit) for (const path of module.own) if (!seen.has(path)) seen.set(path, file)
  }
  return refusals
}
