// What the package.json of a new plugin says so that npm finds the host that made it, also where no registry has it.
import { access, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'

const here = createRequire(import.meta.url)
const folderOf = (name: string): string => dirname(here.resolve(`${name}/package.json`))

const Lock = z.object({
  packages: z.object({ 'node_modules/svc-host': z.object({ resolved: z.string(), version: z.string() }) }),
})

/** The version of the host that npm fetched from a registry; undefined: it came as a file, or is a checkout. */
async function publishedVersion(root: string): Promise<string | undefined> {
  if (basename(dirname(root)) !== 'node_modules') return
  const text = await readFile(join(dirname(root), '.package-lock.json'), 'utf8').catch(() => 'null')
  const { data } = Lock.safeParse(JSON.parse(text))
  const found = data?.packages['node_modules/svc-host']
  return found?.resolved.startsWith('http') ? found.version : undefined
}

export interface OwnHost {
  /** For `devDependencies`; zod is the very one that the host hands to extensions. */
  readonly dependencies: Readonly<Record<string, string>>
  /** A command that has to be run once before its types are there. */
  readonly toBuild?: string
}

export async function ownHost(): Promise<OwnHost> {
  const root = folderOf('svc-host')
  const version = await publishedVersion(root)
  if (version !== undefined) return { dependencies: { 'svc-host': `^${version}`, zod: '^4.0.0' } }
  const isBuilt = await access(join(root, 'dist/sdk/index.d.ts')).then(
    () => true,
    () => false,
  )
  return {
    dependencies: { 'svc-host': `file:${root}`, zod: `file:${folderOf('zod')}` },
    ...(!isBuilt && { toBuild: `npm --prefix ${root} run build` }),
  }
}
