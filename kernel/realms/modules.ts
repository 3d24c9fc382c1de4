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
const sdkFile = join(root, `sdk/index.${extension}`)
const realmFolder = join(root, 'sdk/realm/')
const runtimeFile = join(realmFolder, `runtime.${extension}`)

/** Where the snapshot brings zod and the parts of the SDK that the runtime has as well. */
const zodPlace = 'globalThis.svcHostZod'
const partsPlace = 'globalThis.svcHostParts'

const zodNames = Object.keys(zod).filter(name => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default')
/** zod as a module with what these import of it; names like `null` and `function` can be exported, but not declared. */
function zodFor(users: readonly string[]): string {
  const isAll = users.some(code => /\*[^'"]*from\s*['"]zod['"]/.test(code))
  const names = zodNames.filter(name => isAll || users.some(code => code.includes(name)))
  const taken = names.map((name, at) => `${name}: n${at}`).join(', ')
  const given = names.map((name, at) => `n${at} as ${name}`).join(', ')
  return `const zod = ${zodPlace}; const { ${taken} } = zod; export default zod.z; export { ${given} }`
}

/** What each isolate would pay for in memory and has no use for: other languages, and making code and schemas of schemas. */
const instead = new Map([
  ['v4/locales/index.cjs', 'exports.en = require("./en.cjs")'],
  ['v4/core/compile.cjs', ''],
  ['v4/classic/from-json-schema.cjs', ''],
])

/** Plain properties in place of getters that are sealed later: most of the time that zod takes to begin. */
const plainly: readonly (readonly [RegExp, string])[] = [
  [/^var __(createBinding|exportStar|importStar|setModuleDefault) = [\s\S]*?\n\}(\)\))?;\n/gm, ''],
  [/^exports\.\w+ = exports\.[^\n]* = void 0;\n/gm, ''],
  [
    /Object\.defineProperty\(exports, "(\w+)", \{ enumerable: true, get: function \(\) \{ return ([\w.]+); \} \}\);/g,
    'exports.$1 = $2;',
  ],
  [/\(function \(\) \{\n\s*var keys = Object\.getOwnPropertyNames\(exports\);[\s\S]*?\n\}\)\(\);?\n/g, ''],
]

/** Without lines of comment and indents: whatever is kept is kept in each isolate anew. */
const bare = (code: string): string =>
  code.replaceAll(/^\s*(\/\/|\/?\*( |\/|\*|$)).*\n/gm, '').replaceAll(/^[ \t]+|[ \t]+$/gm, '')

const namesOf = (code: string): string[] =>
  [...code.matchAll(/^export (?:async )?(?:function|class|const) ([\w$]+)/gm)].map(match => match[1]!)

/** A module of the runtime as CommonJS, as zod is: none of them exports what changes later. */
const asCommonJs = (code: string): string =>
  `${code
    .replaceAll(/^import (\{[^}]*\}) from ['"](.+)['"]/gm, 'const $1 = require("$2")')
    .replaceAll(/^const \{[^}]*\} = require/gm, names => names.replaceAll(' as ', ': '))
    .replaceAll(/^export \{[^}]*\} from ['"](.+)['"]/gm, 'Object.assign(exports, require("$1"))')
    .replaceAll(/^export /gm, '')}\nObject.assign(exports, { ${namesOf(code).join(', ')} })`

const placeOf = (file: string): string => JSON.stringify(relative(root, file))
/** What the runtime shares with the SDK that a package imports. */
const isPart = (file: string): boolean => file.startsWith(join(root, 'sdk/')) && !file.startsWith(realmFolder)

async function makeBundle(): Promise<{ script: string; parts: readonly string[] }> {
  const base = dirname(createRequire(import.meta.url).resolve('zod/package.json'))
  const entry = join(base, 'index.cjs')
  const files = new Map<string, string>()
  const add = async (file: string): Promise<void> => {
    if (files.has(file)) return
    files.set(file, '')
    const text = file.startsWith(`${base}/`)
      ? (instead.get(relative(base, file)) ?? (await readFile(file, 'utf8')))
      : asCommonJs(await readOwn(file))
    const inner: string[] = []
    const code = text.replaceAll(/require\("([^"]+)"\)/g, (_, name: string) => {
      const target = name === 'zod' ? entry : join(dirname(file), name)
      inner.push(target)
      return `require(${placeOf(target)})`
    })
    files.set(
      file,
      plainly.reduce((made, [from, to]) => made.replaceAll(from, to), bare(code)),
    )
    for (const target of inner) await add(target)
  }
  await add(entry)
  await add(runtimeFile)
  const modules = [...files].map(
    ([file, code]) => `${placeOf(file)}: (require, module, exports) => {\n${code}\n}`,
  )
  const parts = [...files.keys()].filter(isPart)
  const script = `{ const files = { ${modules.join(',\n')} }, made = {}
const require = name => { let module = made[name]; if (!module) { module = made[name] = { exports: {} };
const make = files[name]; delete files[name]; make(require, module, module.exports) } return module.exports }
const __importStar = module => module
const __exportStar = (from, to) => { for (const name in from) if (name !== "default" && !Object.hasOwn(to, name)) to[name] = from[name] }
${zodPlace} = require(${placeOf(entry)})
${partsPlace} = { ${parts.map(file => `${placeOf(file)}: require(${placeOf(file)})`)} }
globalThis.svcHostRuntime = require(${placeOf(runtimeFile)}) }`
  return { script, parts }
}

let bundle: ReturnType<typeof makeBundle> | undefined
/** The script that becomes the snapshot: zod, and the runtime with what it shares. */
export const readBundle = (): ReturnType<typeof makeBundle> => (bundle ??= makeBundle())

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
  if (name === 'svc-host/sdk') return sdkFile
  const [, api] = /^svc-host\/api\/([a-z0-9-]+)$/.exec(name) ?? []
  return api && join(root, `extensions/${api}/api.${extension}`)
}

const sources = new Map<string, Promise<string>>()
/** What the host ships does not change while it runs; a package's files may. */
const readOwn = (file: string): Promise<string> => {
  const source = sources.get(file) ?? readSource(file).then(bare)
  sources.set(file, source)
  return source
}

async function readSource(file: string): Promise<string> {
  const text = await readFile(file, 'utf8')
  return file.endsWith('.ts') ? stripTypeScriptTypes(text) : text
}

/** The lines of the SDK's index that these modules have use for: the others' schemas would be made in each isolate for nobody. */
const partsOf = (index: string, users: readonly string[]): string =>
  users.some(code => /\*\s*(as\s+[\w$]+\s*)?from\s*['"]svc-host\/sdk['"]/.test(code))
    ? index
    : index.replaceAll(/export\s*\{([^}]*)\}\s*from\s*['"][^'"]+['"]/g, (line, names: string) =>
        names.split(',').some(name => name.trim() && users.some(code => code.includes(name.trim())))
          ? line
          : '',
      )

/** Reads everything that an isolate needs to run this main module. */
export async function collect(mainFile: string): Promise<Pick<Load, 'modules' | 'main'>> {
  const folder = await realpath(dirname(mainFile))
  const zodOf = { code: '', imports: {} }
  const modules: Modules = { zod: zodOf }
  const { parts } = await readBundle()
  const keyOf = (file: string): string => relative(file.startsWith(`${folder}/`) ? folder : root, file)
  const add = async (file: string): Promise<string> => {
    const isOwn = file.startsWith(`${folder}/`)
    const key = isOwn ? `./${keyOf(file)}` : `svc-host/${keyOf(file)}`
    if (modules[key]) return key
    const module = { code: '', imports: {} as Record<string, string> }
    modules[key] = module
    if (parts.includes(file)) {
      const names = namesOf(await readOwn(file)).join(', ')
      module.code = `const { ${names} } = ${partsPlace}[${placeOf(file)}]; export { ${names} }`
    } else if (isOwn) module.code = await readSource(await inside(file, folder))
    else if (file !== sdkFile) module.code = await readOwn(file)
    await follow(module, file)
    return key
  }
  const follow = async ({ code, imports }: Modules[string], file: string): Promise<void> => {
    for (const name of importsOf(code)) {
      const target = name === 'zod' ? undefined : fileOf(name, file, folder)
      if (name === 'zod') imports[name] = 'zod'
      else if (target) imports[name] = await add(target).catch(() => `nothing at ${name}`)
    }
    for (const [name, at] of Object.entries(imports)) if (!modules[at]) delete imports[name]
  }
  const main = await add(join(folder, relative(dirname(mainFile), mainFile)))
  const codes = (): string[] => Object.values(modules).map(({ code }) => code)
  const sdk = modules[`svc-host/${keyOf(sdkFile)}`]
  if (sdk) {
    sdk.code = partsOf(await readOwn(sdkFile), codes())
    await follow(sdk, sdkFile)
  }
  zodOf.code = zodFor(codes())
  return { modules, main }
}

/** A link in a package must not lead out of it. */
async function inside(file: string, folder: string): Promise<string> {
  const real = await realpath(file)
  if (!real.startsWith(`${folder}/`)) throw new Error(`${file} leads out of its package; ship it inside`)
  return real
}
