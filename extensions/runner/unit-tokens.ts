// Tokens of units, `plugin-run/unit-tokens.json`: made when a unit is first run and gone with it, beside what it may call.
import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'

const Own = z.record(z.string(), z.object({ token: z.string(), permissions: z.array(z.string()) }))
const Installed = z.record(z.string(), z.string())

const pathOf = (configDir: string): string => join(configDir, 'plugin-run', 'unit-tokens.json')

async function readJson<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S> | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return undefined
  }
}

/**
 * Brings the file in line with these units and resolves to their tokens by id. One that was installed has its token
 * already, in `plugin-tokens.json`.
 */
export async function syncUnitTokens(
  configDir: string,
  units: readonly { readonly id: string; readonly permissions: readonly string[] }[],
): Promise<Map<string, string>> {
  const path = pathOf(configDir)
  const before = (await readJson(path, Own)) ?? {}
  const installed = (await readJson(join(configDir, 'plugin-run', 'plugin-tokens.json'), Installed)) ?? {}
  const next = Object.fromEntries(
    units.map(({ id, permissions }) => {
      const token = installed[id] ?? before[id]?.token ?? randomBytes(32).toString('hex')
      return [id, { token, permissions: [...permissions] }]
    }),
  )
  if (units.length === 0) await dropUnitTokens(configDir)
  else if (JSON.stringify(next) !== JSON.stringify(before))
    await replace(path, `${JSON.stringify(next, null, 2)}\n`)
  return new Map(Object.entries(next).map(([id, { token }]) => [id, token]))
}

export const dropUnitTokens = (configDir: string): Promise<void> => rm(pathOf(configDir), { force: true })

/** Owner-only, and on disk when it resolves. */
export async function replace(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(`${path}.new`, 'w', 0o600)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.new`, path)
}
