// Finds extensions: built-in folders and installed packages, by the same code; reads and checks their manifests.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import semver from 'semver'
import { type Extension, ProcessRealm, parsePermission, sdkVersion, type Undo } from 'svc-host/sdk'
import { z } from 'zod'
import { readIfThere } from './documents.ts'
import { explainIssues, messageOf } from './errors.ts'

const id = z.string().regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'must be kebab-case')
const version = z.string().refine(v => semver.valid(v) !== null, 'must be a semantic version')
const range = z.string().refine(v => semver.validRange(v) !== null, 'must be a range of versions')
const service = z.string().regex(/^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*$/, 'must be a service name')
const permission = z.string().superRefine((text, { addIssue }) => {
  try {
    if (parsePermission(text).kind !== 'services') return
    addIssue('services are asked for by "requires" and "optional"')
  } catch (error) {
    addIssue(messageOf(error))
  }
})
const path = z.string().regex(/^(?!\/)(?!.*\.\.)[\w./-]+$/, 'must be a path inside the folder')

/** A value that flag, environment, `host.env` or config file may set. */
const Setting = z.strictObject({
  /** Flag of `serve` without its dashes. A boolean flag named `no-…` sets false. */
  flag: z
    .string()
    .regex(/^[a-z][a-z0-9-]*$/)
    .optional(),
  env: z
    .string()
    .regex(/^SVC_[A-Z0-9_]+$/)
    .optional(),
  /** Dotted place in the extension's config; default the setting's own name. */
  config: z.string().optional(),
  /** A `port` may be 0: any that is free. */
  type: z.enum(['string', 'boolean', 'port', 'integer', 'path']),
  values: z.array(z.string()).optional(),
  min: z.number().int().optional(),
  max: z.number().int().optional(),
  help: z.string(),
})
export type Setting = z.output<typeof Setting>

/** What `extension.json` holds; unknown keys are errors. */
export const Manifest = z.strictObject({
  $schema: z.string().optional(),
  id,
  version,
  sdk: range,
  title: z.string().min(1),
  requires: z.record(service, range).default({}),
  optional: z.record(service, range).default({}),
  provides: z.record(service, version).default({}),
  realm: z.enum(['kernel', 'isolate', 'process']).default('isolate'),
  permissions: z.array(permission).max(64).default([]),
  platforms: z.array(z.enum(['linux', 'win32', 'darwin'])).default(['linux']),
  main: path.default('index.ts'),
  undo: path.optional(),
  commands: z
    .array(z.strictObject({ name: z.string().regex(/^[a-z][a-z0-9-]*$/), title: z.string(), module: path }))
    .default([]),
  settings: z.record(z.string(), Setting).default({}),
  pages: z.array(z.strictObject({ path, title: z.string(), icon: z.string().optional() })).default([]),
  /** Packages of the operating system that set-up installs; the kernel only carries them. */
  system: z.strictObject({ debian: z.array(z.string()) }).optional(),
})
export type Manifest = z.output<typeof Manifest>

/** The services that it cannot be without: those it requires, and the one that its realm is made of. */
export const needsOf = ({ realm, requires }: Manifest): Readonly<Record<string, string>> =>
  realm === 'process' ? { [ProcessRealm.id]: `^${ProcessRealm.version}`, ...requires } : requires

export type UndoKinds = Readonly<Record<string, Undo<unknown>>>

/** An extension that was found, whether or not it can run. */
export interface Found {
  readonly id: string
  readonly folder: string
  readonly builtin: boolean
  readonly manifest?: Manifest
  /** Why it cannot run, as a sentence. */
  readonly problem?: string
  /** What `sealOf` its folder must be, as it was when it was installed. */
  readonly seal?: string
  /** Absolute path of the undo module, written into every durable record. */
  readonly undoFile?: string
  /** Absolute path of the main module. */
  readonly mainFile?: string
  /** The main module's default export, in this process. */
  load(): Promise<Extension>
  loadUndo?(): Promise<UndoKinds>
}

const builtinFolder = fileURLToPath(new URL('../extensions', import.meta.url))

/** A `.ts` module of a checkout is a `.js` module in the published package. */
export const sourceFile = (folder: string, name: string): string => {
  const file = join(folder, name)
  return file.endsWith('.ts') && !existsSync(file) ? file.replace(/ts$/, 'js') : file
}

/** A module's default export. An update lies in a folder of its own; a `seal` tells two that lay in one folder apart. */
export async function loadDefault<T>(file: string, seal = ''): Promise<T> {
  const { href } = pathToFileURL(file)
  return ((await import((seal && `${href}?${encodeURIComponent(seal)}`) || href)) as { default: T }).default
}

const cannotRun = (manifest: Manifest): string | undefined => {
  if (!semver.satisfies(sdkVersion, manifest.sdk)) {
    return `needs sdk ${manifest.sdk}, but this host has ${sdkVersion}; install a version made for it`
  }
  if (manifest.undo !== undefined && manifest.realm !== 'kernel')
    return `has an undo module, which the ${manifest.realm} realm does not run; leave "undo" out of extension.json`
  return undefined
}

/** Stands for what cannot run. */
const broken = (id: string, folder: string, builtin: boolean, problem: string): Found => ({
  id,
  folder,
  builtin,
  problem,
  load: () => Promise.reject(new Error(problem)),
})

/** Reads one extension folder; whatever is wrong with it becomes its `problem`. Its id must be `name`, if that is given. */
export async function readExtension(
  folder: string,
  name: string | undefined,
  builtin: boolean,
  seal?: string,
): Promise<Found> {
  const refuse = (problem: string): Found => broken(name ?? basename(folder), folder, builtin, problem)
  let text: string
  try {
    text = await readFile(join(folder, 'extension.json'), 'utf8')
  } catch (error) {
    return refuse(`${join(folder, 'extension.json')} cannot be read: ${messageOf(error)}`)
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return refuse(`extension.json is not JSON: ${messageOf(error)}`)
  }
  const parsed = Manifest.safeParse(json)
  if (!parsed.success) return refuse(`extension.json: ${explainIssues(parsed.error)}`)
  const manifest = parsed.data
  if (name !== undefined && manifest.id !== name)
    return refuse(`extension.json: id is "${manifest.id}", but its folder is "${name}"`)
  const undo = sourceFile(folder, manifest.undo ?? 'undo.ts')
  // It would run in the host's process.
  const hasUndo = manifest.realm === 'kernel' && (manifest.undo !== undefined || existsSync(undo))
  const problem = cannotRun(manifest)
  const mainFile = sourceFile(folder, manifest.main)
  return {
    id: manifest.id,
    folder,
    mainFile,
    builtin,
    manifest,
    ...(problem !== undefined && { problem }),
    ...(seal !== undefined && { seal }),
    ...(hasUndo && { undoFile: undo, loadUndo: () => loadDefault<UndoKinds>(undo) }),
    load: () => loadDefault<Extension>(mainFile, seal),
  }
}

/** `@scope/plugin-name`, `svc-plugin-name` and `name` all have the id `name`. */
const idOfPackage = (name: string): string => basename(name).replace(/^(svc-)?plugin-/, '')

const InstalledPackages = z.object({
  dependencies: z.record(z.string(), z.string()).default({}),
  /** Seals of the folders, by package and version. */
  seals: z.record(z.string(), z.record(z.string(), z.string())).default({}),
})

/** The installed packages: the ledger's top-level dependencies, each at exactly its version. */
async function findInstalled(plugins: string): Promise<Found[]> {
  const ledger = join(plugins, 'package.json')
  try {
    const text = (await readIfThere(ledger)) ?? '{}'
    const { dependencies, seals } = InstalledPackages.parse(JSON.parse(text))
    const folders = Object.entries(dependencies).flatMap(([pkg, wanted]) => {
      const [name, version] = [idOfPackage(pkg), semver.minVersion(wanted)?.version ?? wanted]
      const folder = join(plugins, '.versions', name, version)
      const [isPackage, isExtension] = ['package.json', 'extension.json'].map(each =>
        existsSync(join(folder, each)),
      )
      // A package without a manifest is somebody else's to run.
      return isPackage && !isExtension ? [] : [readExtension(folder, name, false, seals[pkg]?.[version])]
    })
    return await Promise.all(folders)
  } catch (error) {
    // Without it nobody knows which packages there are: one that has failed stands for them all.
    const problem = `cannot be found, because ${ledger} cannot be used: ${messageOf(error)}`
    return [broken('installed-packages', plugins, false, problem)]
  }
}

/** The folders that hold a manifest. */
async function findBuiltins(folder: string): Promise<Found[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const names = entries.filter(entry => entry.isDirectory()).map(({ name }) => name)
  const holding = names.filter(name => existsSync(join(folder, name, 'extension.json')))
  return Promise.all(holding.map(name => readExtension(join(folder, name), name, true)))
}

export interface Search {
  readonly safe?: boolean
  /** The folder of the built-ins. */
  readonly builtin?: string
  /** What to take instead of the built-ins. */
  readonly found?: readonly Found[] | undefined
}

/** Every extension of this host, sorted by id; `safe` leaves installed packages out. Never throws for a broken one. */
export async function discoverExtensions(
  configDir: string,
  { safe = false, builtin = builtinFolder, found: given }: Search = {},
): Promise<Found[]> {
  const builtins = given ?? (await findBuiltins(builtin))
  const provided = builtins.flatMap(({ manifest }) => Object.keys(manifest?.provides ?? {}))
  // By these nouns the host's own events and hook points go, as an extension's go by its id.
  const nouns = new Set(['host', 'kernel', ...provided.map(name => name.split('.', 1)[0]!)])
  const installed = safe ? [] : await findInstalled(join(configDir, 'plugins'))
  const others = installed.map(each => {
    const problem = `its id is a noun of the host's own (${each.id}.…); it needs another`
    return nouns.has(each.id) ? broken(each.id, each.folder, false, problem) : each
  })
  const found = [...builtins, ...others]
  const taken = new Set<string>()
  const first = found.filter(({ id }) => !taken.has(id) && taken.add(id))
  return given ? first : first.sort((a, b) => (a.id < b.id ? -1 : 1))
}
