// Finds extensions: built-in folders and installed packages, by the same code; reads and checks their manifests.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import semver from 'semver'
import { type Extension, sdkVersion, type Undo } from 'svc-host/sdk'
import { z } from 'zod'
import { explainIssues, messageOf } from './errors.ts'

const id = z.string().regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'must be kebab-case')
const version = z.string().refine(v => semver.valid(v) !== null, 'must be a semantic version')
const range = z.string().refine(v => semver.validRange(v) !== null, 'must be a range of versions')
const service = z.string().regex(/^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*$/, 'must be a service name')
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
  permissions: z.array(z.string()).default([]),
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
  /** The main module's default export. */
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
  if (manifest.realm !== 'kernel') {
    return `wants the ${manifest.realm} realm, which this version of the host cannot run yet`
  }
  return undefined
}

/** Reads one extension folder; whatever is wrong with it becomes its `problem`. */
export async function readExtension(
  folder: string,
  name: string,
  builtin: boolean,
  seal?: string,
): Promise<Found> {
  const broken = (problem: string): Found => ({
    id: name,
    folder,
    builtin,
    problem,
    load: () => Promise.reject(new Error(problem)),
  })
  let text: string
  try {
    text = await readFile(join(folder, 'extension.json'), 'utf8')
  } catch (error) {
    return broken(`${join(folder, 'extension.json')} cannot be read: ${messageOf(error)}`)
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return broken(`extension.json is not JSON: ${messageOf(error)}`)
  }
  const parsed = Manifest.safeParse(json)
  if (!parsed.success) return broken(`extension.json: ${explainIssues(parsed.error)}`)
  const manifest = parsed.data
  if (manifest.id !== name)
    return broken(`extension.json: id is "${manifest.id}", but its folder is "${name}"`)
  const undo = sourceFile(folder, manifest.undo ?? 'undo.ts')
  const hasUndo = manifest.undo !== undefined || existsSync(undo)
  const problem = cannotRun(manifest)
  return {
    id: manifest.id,
    folder,
    builtin,
    manifest,
    ...(problem !== undefined && { problem }),
    ...(seal !== undefined && { seal }),
    ...(hasUndo && { undoFile: undo, loadUndo: () => loadDefault<UndoKinds>(undo) }),
    load: () => loadDefault<Extension>(sourceFile(folder, manifest.main), seal),
  }
}

/** `@scope/plugin-name`, `svc-plugin-name` and `name` all have the id `name`. */
const idOfPackage = (name: string): string => basename(name).replace(/^(svc-)?plugin-/, '')

const InstalledPackages = z.object({
  dependencies: z.record(z.string(), z.string()).default({}),
  /** Seals of the folders, by package and version. */
  seals: z.record(z.string(), z.record(z.string(), z.string())).default({}),
})

interface Installed {
  readonly folder: string
  readonly name: string
  readonly seal?: string | undefined
}

/** The folders of installed packages: the ledger's top-level dependencies, each at exactly its version. */
async function installedFolders(plugins: string): Promise<Installed[]> {
  const text = await readFile(join(plugins, 'package.json'), 'utf8').catch(() => '{}')
  const { dependencies, seals } = InstalledPackages.parse(JSON.parse(text))
  return Object.entries(dependencies).map(([pkg, wanted]) => {
    const [name, version] = [idOfPackage(pkg), semver.minVersion(wanted)?.version ?? wanted]
    return { name, folder: join(plugins, '.versions', name, version), seal: seals[pkg]?.[version] }
  })
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
  const folders = given
    ? []
    : (await readdir(builtin, { withFileTypes: true }).catch(() => []))
        .filter(entry => entry.isDirectory() && existsSync(join(builtin, entry.name, 'extension.json')))
        .map(entry => ({ folder: join(builtin, entry.name), name: entry.name, builtin: true }))
  const plugins = join(configDir, 'plugins')
  // A ledger that cannot be read shows as an extension that has failed.
  const installed = safe
    ? []
    : await installedFolders(plugins).catch((): Installed[] => [{ folder: plugins, name: 'plugins' }])
  const found = await Promise.all([
    ...folders.map(({ folder, name }) => readExtension(folder, name, true)),
    ...(given ?? []),
    ...installed.map(each => readExtension(each.folder, each.name, false, each.seal)),
  ])
  const taken = new Set<string>()
  const first = found.filter(({ id }) => !taken.has(id) && taken.add(id))
  return given ? first : first.sort((a, b) => (a.id < b.id ? -1 : 1))
}
