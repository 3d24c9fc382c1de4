// Whose token a bearer is: the runner's, or that of one plugin. The files are read on each call, so that a token that is gone is gone.
import { createHash, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PluginTokens } from 'svc-host/sdk'
import { z } from 'zod'

const Tokens = z.record(z.string(), z.string().min(16))
const UnitTokens = z.record(
  z.string(),
  z.object({ token: z.string().min(16), permissions: z.array(z.string()) }),
)

/** Takes the same time wherever two texts differ, and whatever their lengths. */
const isSame = (a: string, b: string): boolean => {
  const [one, other] = [a, b].map(text => createHash('sha256').update(text).digest())
  return timingSafeEqual(one!, other!)
}

const textOf = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '')

/** The value of a token file: `KEY=value`, or a bare token; blank lines and comments are skipped. */
export const tokenIn = (text: string): string | undefined => {
  const line = text.split(/\r?\n/).find(each => each.trim() !== '' && !each.trim().startsWith('#'))
  const value = line?.slice(line.indexOf('=') + 1).trim()
  return value === '' ? undefined : value
}

/** The tokens of plugins by id; a file that cannot be read holds none. */
export function tokensIn(text: string): Record<string, string> {
  try {
    return Tokens.safeParse(JSON.parse(text)).data ?? {}
  } catch {
    return {}
  }
}

export const readTokens = async (configDir: string): Promise<Record<string, string>> =>
  tokensIn(await textOf(join(configDir, 'plugin-run', 'plugin-tokens.json')))

/** What the runner's units come with: a token each, and what it may call. */
async function readUnitTokens(configDir: string): Promise<z.output<typeof UnitTokens>> {
  try {
    return UnitTokens.parse(JSON.parse(await textOf(join(configDir, 'plugin-run', 'unit-tokens.json'))))
  } catch {
    return {}
  }
}

export const createTokens = (configDir: string): PluginTokens => ({
  async resolve(bearer) {
    const runner = tokenIn(await textOf(join(configDir, 'plugin-token')))
    // All are compared, so that the time says nothing about which was nearest.
    const units = Object.entries(await readUnitTokens(configDir)).filter(([, unit]) =>
      isSame(unit.token, bearer),
    )
    const found = Object.entries(await readTokens(configDir)).filter(([, token]) => isSame(token, bearer))
    if (runner !== undefined && isSame(runner, bearer)) return { id: null }
    if (units[0]) return { id: units[0][0], permissions: units[0][1].permissions }
    return found[0] && { id: found[0][0] }
  },
})
