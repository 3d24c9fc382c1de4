// The ledger of what is installed, `<config>/plugins/package.json`: each step of an operation replaces it as a whole.
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { Tier } from './schema.ts'

const Decision = z.object({ granted: z.array(z.string()), refused: z.array(z.string()) })
const SettledEntry = z.looseObject({
  id: z.string(),
  /** There for a unit of the plugin runner, which has no manifest that says so. */
  unit: z.object({ title: z.string(), permissions: z.array(z.string()) }).optional(),
  tier: Tier,
  source: z.string().optional(),
  entryId: z.string().optional(),
  /** Unix seconds. */
  installedAt: z.int(),
  /** sha512 of each kept version as it came, as npm writes it. */
  integrity: z.record(z.string(), z.string()).default({}),
  /** Seals of what came in the package itself, where dependencies were put beside it. */
  contents: z.record(z.string(), z.string()).optional(),
  /** What a rollback goes back to. */
  previous: z.string().optional(),
  pinned: z.boolean().default(false),
})
const Entry = SettledEntry.extend({
  /** There while an update has not shown that it comes up: what to go back to. */
  fallback: z
    .object({ version: z.string(), entry: SettledEntry.optional(), decided: Decision.optional() })
    .optional(),
})
export type Entry = z.output<typeof Entry>

const Ledger = z.looseObject({
  private: z.literal(true).default(true),
  /** Package to version: what the host starts. */
  dependencies: z.record(z.string(), z.string()).default({}),
  /** What the files of each kept version were when they were installed. */
  seals: z.record(z.string(), z.record(z.string(), z.string())).default({}),
  packages: z.record(z.string(), Entry).default({}),
  /** Extensions of which something may be left to remove. */
  removing: z.array(z.object({ id: z.string(), keepData: z.boolean() })).default([]),
  /** What was decided about permissions before an operation that has not come to its end. */
  restoring: z.record(z.string(), Decision).optional(),
})
export type Ledger = z.output<typeof Ledger>

/** Where the packages of a host lie. */
export interface Layout {
  readonly plugins: string
  readonly ledger: string
  readonly versions: string
  /** Of the operation under way; removed at its end. */
  readonly work: string
  stateOf(id: string): string
  configOf(id: string): string
}

export const layoutOf = (configDir: string): Layout => {
  const plugins = join(configDir, 'plugins')
  return {
    plugins,
    ledger: join(plugins, 'package.json'),
    versions: join(plugins, '.versions'),
    work: join(plugins, '.work'),
    stateOf: id => join(configDir, 'plugin-state', id),
    configOf: id => join(configDir, 'extension-config', `${id}.json`),
  }
}

export async function readLedger({ ledger: path }: Layout): Promise<Ledger> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}'
    throw error
  })
  try {
    return Ledger.parse(JSON.parse(text))
  } catch (error) {
    // Starting from an empty one would lose what is installed.
    const remedy = 'mend it, or move it away to begin with nothing installed'
    throw new Error(`the ledger plugins/package.json cannot be read; ${remedy}`, { cause: error })
  }
}

const sync = async (path: string): Promise<void> => {
  const handle = await open(path)
  await handle.sync().finally(() => handle.close())
}

/** Makes what was written in a folder last, its files and the folder itself. */
export const syncAll = async (paths: readonly string[]): Promise<void> => {
  for (const path of paths) await sync(path)
}

/** On disk when it resolves: a crash leaves either the former ledger or this one. */
export async function writeLedger({ ledger: path }: Layout, ledger: Ledger): Promise<void> {
  const next = `${path}.new`
  // Parsed, so that one state always reads the same.
  const text = `${JSON.stringify(Ledger.parse(ledger), null, 2)}\n`
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(next, 'w', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(next, path)
  await sync(dirname(path))
}

/** With nothing installed the ledger goes too. */
export async function writeOrRemove(layout: Layout, ledger: Ledger): Promise<void> {
  const { dependencies, removing, restoring = {}, packages, seals, private: _, ...own } = ledger
  const parts = [dependencies, removing, restoring, packages, seals, own]
  const isEmpty = parts.every(part => Object.keys(part).length === 0)
  if (isEmpty) await rm(layout.ledger, { force: true })
  else await writeLedger(layout, ledger)
}

/** The versions of a package that are kept: what runs, and what an update or a rollback may go back to. */
export const keptVersions = ({ dependencies, packages }: Ledger, pkg: string): string[] =>
  [dependencies[pkg], packages[pkg]?.previous, packages[pkg]?.fallback?.version].filter(
    each => each !== undefined,
  )
