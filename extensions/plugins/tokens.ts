// Tokens of installed plugins, `plugin-run/plugin-tokens.json`: one for each, made with it and gone with it.
import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'

const Tokens = z.record(z.string(), z.string())

const folderOf = (configDir: string): string => join(configDir, 'plugin-run')

/** Owner-only, and on disk when it resolves. */
async function replace(path: string, tokens: object): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(`${path}.new`, 'w', 0o600)
  try {
    await file.writeFile(`${JSON.stringify(tokens, null, 2)}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.new`, path)
}

/** Brings the tokens in line with what is installed; a broken file is made anew, and with it every token. */
export async function syncTokens(configDir: string, ids: readonly string[]): Promise<void> {
  const path = join(folderOf(configDir), 'plugin-tokens.json')
  const text = await readFile(path, 'utf8').catch(() => '{}')
  let before: Record<string, string> = {}
  try {
    before = Tokens.parse(JSON.parse(text))
  } catch {}
  const next = Object.fromEntries(
    [...ids].sort().map(id => [id, before[id] ?? randomBytes(32).toString('hex')]),
  )
  if (ids.length === 0) {
    await rm(path, { force: true })
    await rmdir(dirname(path)).catch(() => {})
  } else if (`${JSON.stringify(next, null, 2)}\n` !== text) await replace(path, next)
}

/** The runner, which keeps the tokens of its units, may not be there to drop that of one that has gone. */
export async function dropUnitToken(configDir: string, id: string): Promise<void> {
  const path = join(folderOf(configDir), 'unit-tokens.json')
  const text = await readFile(path, 'utf8').catch(() => '{}')
  try {
    const { [id]: own, ...others } = z.record(z.string(), z.unknown()).parse(JSON.parse(text))
    if (own === undefined) return
    if (Object.keys(others).length > 0) await replace(path, others)
    else await rm(path, { force: true })
  } catch {}
}
