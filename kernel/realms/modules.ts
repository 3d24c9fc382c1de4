// The modules that cross into an isolate: the package's own, the SDK and the public faces it imports, and zod, each from
// the host's one copy. All are read here; nothing inside a sandbox ever names a file.
import { readFile, realpath } from 'node:fs/promises'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as zod from 'zod'
import type { Load } from './requests.ts'

type Modules = Record<string, { code: string; imports: Record<string, string> }>

const root = fileURLToPath(new URL('../../', import.meta.url))
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const runtimeFile = join(root, `sdk/realm/runtime.${extension}`)

/** Where zod lies in the global object of each isolate: there from its first moment, by the snapshot. */
const zodPlace = 'globalThis.svcHostZod'

/** zod as a module of its own: names like `null` and `function` can be exported, but not declared. */
const zodModule = ((): string => {
  const names = Object.keys(zod).filter(name => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default')
  const taken = names.map((name, at) => `${name}: n${at}`).join(', ')
  const given = names.map((name, at) => `n${at} as ${name}`).join(', ')
  return `const zod = ${zodPlace}; const { ${taken} } = zod; export default zod.z; export { ${given} }`
})()

/** What each isolate would pay for in memory and has no use for: other languages, and making code and schemas of schemas. */
const instead = new Map([
  ['v4/locales/index.cjs', 'exports.en = require("./en.cjs").default'],
  ['v4/core/compile.cjs', ''],
  ['v4/classic/from-json-schema.cjs', ''],
])

/** zod as one script, of its CommonJS files. */
async function bundleZod(): Promise<string> {
  const base = dirname(createRequire(import.meta.url).resolve('zod/package.json'))
  const entry = join(base, 'index.cjs')
  const files = new Map<string, string>()
  const add = async (file: string): Promise<void> => {
    if (files.has(file)) return
    files.set(file, '')
    const text = instead.get(relative(base, file)) ?? (await readFile(file, 'utf8'))
    const inner: string[] = []
    const code = text.replaceAll(/require\("(\.[^"]+)"\)/g, (_, name: string) => {
      const target = join(dirname(file), name)
      inner.push(target)
      return `require(${JSON.stringify(relative(base, target))})`
    })
    // Lines of comment only: what is kept is kept in each isolate anew.
    files.set(file, code.replaceAll(/^\s*(\/\/|\/?\*( |\/|\*|$)).*\n/gm, '').replaceAll(/^[ \t]+/gm, ''))
    for (const target of inner) await add(target)
  }
  await add(entry)
  const modules = [...files].map(
    ([file, code]) => `${JSON.stringify(relative(base, file))}: (require, module, exports) => {\n${code}\n}`,
  )
  return `{ const files = { ${modules.join(',\n')} }, made = {}
const require = name => { let module = made[name]; if (!module) { module = made[name] = { exports: {} };
files[name](require, module, module.exports) } return module.exports }
Object.defineProperty(globalThis, "svcHostZod", { value: require("index.cjs") }) }`
}

let zodScript: Promise<string> | undefined
export const readZodScript = (): Promise<string> => (zodScript ??= bundleZod())

/** Every name that a module imports or re-exports; a few too many do no harm, they only have to be allowed ones. */
const importsOf = (code: string): string[] =>
  [...code.matchAll(/\b(?:from|import)\s*(['"])([^'"\n]+)\1/g)].map(match => match[2]!)

/** The file behind a name, or undefined where the realm does not have it. */
function fileOf(name: string, from: string, folder: string): string | undefined {
  if (name.startsWith('.')) {
    const file = join(dirname(from), name)
    const own = from.startsWith(`${folder}/`) ? folder : root
    return file.startsWith(own.endsWith('/') ? own : `${own}/`) ? file : undefined
  }
  if (name === 'svc-host/sdk') return join(root, `sdk/index.${extension}`)
  const [, api] = /^svc-host\/api\/([a-z0-9-]+)$/.exec(name) ?? []
  return api && join(root, `extensions/${api}/api.${extension}`)
}

const sources = new Map<string, Promise<string>>()

async function readSource(file: string): Promise<string> {
  const text = await readFile(file, 'utf8')
  return file.endsWith('.ts') ? stripTypeScriptTypes(text) : text
}

/** Reads everything that an isolate needs to run this main module. */
export async function collect(mainFile: string): Promise<Pick<Load, 'modules' | 'runtime' | 'main'>> {
  const folder = await realpath(dirname(mainFile))
  const modules: Modules = { zod: { code: zodModule, imports: {} } }
  const keyOf = (file: string): string => relative(file.startsWith(`${folder}/`) ? folder : root, file)
  const add = async (file: string): Promise<string> => {
    const isOwn = file.startsWith(`${folder}/`)
    const key = isOwn ? `./${keyOf(file)}` : `svc-host/${keyOf(file)}`
    if (modules[key]) return key
    const imports: Record<string, string> = {}
    modules[key] = { code: '', imports }
    // What the host ships does not change while it runs; a package's files may.
    const source = isOwn ? readSource(await inside(file, folder)) : (sources.get(file) ?? readSource(file))
    if (!isOwn) sources.set(file, source)
    modules[key].code = await source
    for (const name of importsOf(modules[key].code)) {
      const target = name === 'zod' ? undefined : fileOf(name, file, folder)
      if (name === 'zod') imports[name] = 'zod'
      else if (target) imports[name] = await add(target).catch(() => `nothing at ${name}`)
    }
    for (const [name, at] of Object.entries(imports)) if (!modules[at]) delete imports[name]
    return key
  }
  const runtime = await add(runtimeFile)
  const main = await add(join(folder, relative(dirname(mainFile), mainFile)))
  return { modules, runtime, main }
}

/** A link in a package must not lead out of it. */
async function inside(file: string, folder: string): Promise<string> {
  const real = await realpath(file)
  if (!real.startsWith(`${folder}/`)) throw new Error(`${file} leads out of its package; ship it inside`)
  return real
}
