// The modules that cross into an isolate: the package's own, the SDK and the public faces it imports, and zod, each from
// the host's one copy. All are read here; nothing inside a sandbox ever names a file.
import { readFile, realpath } from 'node:fs/promises'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as zod from 'zod'
import type { Boot, Load } from './requests.ts'

type Modules = Record<string, { code: string; imports: Record<string, string> }>

const root = fileURLToPath(new URL('../../', import.meta.url))
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const sdkFile = join(root, `sdk/index.${extension}`)
const realmFolder = join(root, 'sdk/realm/')
const runtimeFile = join(realmFolder, `runtime.${extension}`)

/** Where zod lies in the global object of each isolate: made when it is first asked for, of code that the snapshot brings. */
const zodPlace = 'globalThis.svcHostZod'

/** zod as a module of its own: names like `null` and `function` can be exported, but not declared. */
const zodModule = ((): string => {
  const names = Object.keys(zod).filter(name => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default')
  const taken = names.map((name, at) => `${name}: n${at}`).join(', ')
  const given = names.map((name, at) => `n${at} as ${name}`).join(', ')
  return `const zod = ${zodPlace}; const { ${taken} } = zod; export default zod.z; export { ${given} }`
})()

/** What the runtime itself needs of it: nothing before the extension has a schema. */
const zodOfRuntime = `export const z = { toJSONSchema: (...given) => ${zodPlace}.toJSONSchema(...given) }`

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
    files.set(
      file,
      plainly.reduce((made, [from, to]) => made.replaceAll(from, to), bare(code)),
    )
    for (const target of inner) await add(target)
  }
  await add(entry)
  const modules = [...files].map(
    ([file, code]) => `${JSON.stringify(relative(base, file))}: (require, module, exports) => {\n${code}\n}`,
  )
  return `{ const files = { ${modules.join(',\n')} }, made = {}
const require = name => { let module = made[name]; if (!module) { module = made[name] = { exports: {} };
files[name](require, module, module.exports) } return module.exports }
const __importStar = module => module
const __exportStar = (from, to) => { for (const name in from) if (name !== "default" && !Object.hasOwn(to, name)) to[name] = from[name] }
Object.defineProperty(globalThis, "svcHostZod", { get: () => require("index.cjs") }) }`
}

/** What most packages do with it, done once: functions that have run are in the snapshot as code, not only as text. */
const zodUses = `{ const { z } = ${zodPlace}
const some = z.object({ a: z.string().min(1).max(9).optional(), b: z.number().int().min(0).default(3),
  c: z.array(z.union([z.literal('c'), z.enum(['d', 'e'])])), d: z.record(z.string(), z.unknown()), e: z.boolean().nullable() })
const all = z.strictObject({ some }).describe('all')
all.safeParse({ some: { a: 'a', c: ['c', 'd'], d: {}, e: null } })
all.safeParse({})
z.toJSONSchema(all, { io: 'input', target: 'draft-2020-12' }) }`

let boot: Promise<Boot> | undefined
/** What a sandbox begins with. */
export function readBoot(): Promise<Boot> {
  boot ??= bundleZod().then(script => ({ script, warmUp: zodUses }))
  return boot
}

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
export async function collect(mainFile: string): Promise<Pick<Load, 'modules' | 'runtime' | 'main'>> {
  const folder = await realpath(dirname(mainFile))
  const modules: Modules = {
    zod: { code: zodModule, imports: {} },
    'zod of the runtime': { code: zodOfRuntime, imports: {} },
  }
  const keyOf = (file: string): string => relative(file.startsWith(`${folder}/`) ? folder : root, file)
  const add = async (file: string): Promise<string> => {
    const isOwn = file.startsWith(`${folder}/`)
    const key = isOwn ? `./${keyOf(file)}` : `svc-host/${keyOf(file)}`
    if (modules[key]) return key
    const module = { code: '', imports: {} as Record<string, string> }
    modules[key] = module
    if (isOwn) module.code = await readSource(await inside(file, folder))
    else if (file !== sdkFile) module.code = await readOwn(file)
    await follow(module, file)
    return key
  }
  const follow = async ({ code, imports }: Modules[string], file: string): Promise<void> => {
    for (const name of importsOf(code)) {
      const target = name === 'zod' ? undefined : fileOf(name, file, folder)
      if (name === 'zod') imports[name] = file.startsWith(realmFolder) ? 'zod of the runtime' : 'zod'
      else if (target) imports[name] = await add(target).catch(() => `nothing at ${name}`)
    }
    for (const [name, at] of Object.entries(imports)) if (!modules[at]) delete imports[name]
  }
  const runtime = await add(runtimeFile)
  const main = await add(join(folder, relative(dirname(mainFile), mainFile)))
  const sdk = modules[`svc-host/${keyOf(sdkFile)}`]
  if (sdk) {
    const users = Object.values(modules).map(({ code }) => code)
    sdk.code = partsOf(await readOwn(sdkFile), users)
    await follow(sdk, sdkFile)
  }
  return { modules, runtime, main }
}

/** A link in a package must not lead out of it. */
async function inside(file: string, folder: string): Promise<string> {
  const real = await realpath(file)
  if (!real.startsWith(`${folder}/`)) throw new Error(`${file} leads out of its package; ship it inside`)
  return real
}
