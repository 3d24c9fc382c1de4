// Configs of extensions: read from their files with what the operator has set over them, and written by the API.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type ExtensionConfig, type Extensions, HttpError, isHttpError } from 'svc-host/sdk'
import { z } from 'zod'
import { type Loaded, type Reach, setupLimitMs } from './context.ts'
import { keepAside, writeDurably } from './documents.ts'
import { explainIssues, messageOf, runAs, within } from './errors.ts'
import { checkSeal } from './examine.ts'
import type { Ledger } from './ledger.ts'
import { inability } from './reasons.ts'
import type { Roster } from './roster.ts'
import { createEffects } from './scope.ts'
import { isPlain, set } from './settings.ts'
import { createTurns } from './turns.ts'
import type { Unit } from './unit.ts'

/** Of a config as text, and how deep it may be. */
const lengthLimit = 256 * 1024
const depthLimit = 32

type Values = Record<string, unknown>

const deepFreeze = <T>(value: T): T => {
  if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    Object.values(value).forEach(deepFreeze)
    Object.freeze(value)
  }
  return value
}

const fileOf = (configDir: string, id: string): string => join(configDir, 'extension-config', `${id}.json`)

async function readStored(file: string): Promise<Values> {
  let stored: unknown = {}
  try {
    stored = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw new Error(`${file}: ${messageOf(error)}`)
  }
  if (!isPlain(stored)) throw new Error(`${file}: expected a JSON object`)
  return stored
}

type Parsed = { readonly data: unknown } | { readonly mistake: string }

async function parse(stored: Values, { config }: Loaded, unit: Unit, file: string): Promise<Parsed> {
  const { overrides } = unit
  const merged: Values = { ...stored }
  for (const { at, value } of overrides) set(merged, at, value)
  const parsed = await (config ?? z.object({})).safeParseAsync(merged)
  if (parsed.success) return { data: deepFreeze(parsed.data) }
  const sources = overrides
    .filter(({ at }) => parsed.error.issues.some(({ path }) => at.every((key, i) => path[i] === key)))
    .map(({ source }) => source)
  return { mistake: `config (${sources.join(', ') || file}): ${explainIssues(parsed.error)}` }
}

/** An extension's config, parsed and frozen; rejects with the file and the path of each issue. */
export async function readConfig(unit: Unit, definition: Loaded, configDir: string): Promise<unknown> {
  const file = fileOf(configDir, unit.found.id)
  const stored = await readStored(file)
  const parsed = await parse(stored, definition, unit, file)
  if ('mistake' in parsed) throw new Error(parsed.mistake)
  const known = isPlain(parsed.data) ? Object.keys(parsed.data) : []
  const shape = definition.config instanceof z.ZodObject ? Object.keys(definition.config.shape) : []
  const unknown = Object.keys(stored).filter(key => ![...known, ...shape].includes(key))
  if (unknown.length)
    unit.log.warn(`${file} has keys that nobody reads: ${unknown.join(', ')}; check their spelling`)
  return parsed.data
}

/** Whether the config of one that is on has changed; refuses a mistake in it, and then nothing changes. */
export async function hasNewConfig(unit: Unit, configDir: string): Promise<boolean> {
  const next = await readConfig(unit, unit.definition!, configDir).catch(error => {
    throw new HttpError(409, `${messageOf(error)}; ${unit.found.id} goes on with the config it has`)
  })
  return !isDeepStrictEqual(next, unit.config)
}

/** What no file can keep, or no reader can take. */
function checkPlain(value: unknown, path: readonly string[] = []): void {
  const refuse = (why: string): never => {
    throw new HttpError(422, `${path.slice(0, depthLimit).join('.')}: ${why}`)
  }
  if (path.length > depthLimit) refuse(`a config may be ${depthLimit} levels deep`)
  if (path.at(-1) === '__proto__') refuse('no key of a config can have this name')
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) checkPlain((value as Values)[key], [...path, key])
}

export interface ConfigsOptions extends Pick<Reach, 'configDir' | 'load' | 'report'> {
  readonly roster: Pick<Roster, 'get'>
  readonly ledger: Ledger
  readonly life: Pick<Extensions, 'enable' | 'list'>
}

export function createConfigs(options: ConfigsOptions): Pick<Extensions, 'config' | 'configure'> {
  const { configDir, load, report, roster, ledger, life } = options
  const inTurn = createTurns()
  const unitOf = (id: string): Unit => {
    const unit = roster.get(id)
    if (unit) return unit
    throw new HttpError(404, `there is no extension "${id}"`)
  }

  /** What is not on is loaded for this alone, without its setup. */
  const withDefinition = async <T>(unit: Unit, use: (definition: Loaded) => Promise<T>): Promise<T> => {
    const { found, definition } = unit
    if (unit.state === 'on' && definition) return use(definition)
    const [state, why] = inability({ ...unit, failure: undefined }, ledger) ?? []
    if (why !== undefined) throw new Error(`it is ${state}: ${why}`)
    const effects = createEffects(found.id, report)
    try {
      if (found.seal !== undefined) await checkSeal(found.folder, found.seal)
      const loading = runAs(found.id, () => load(found, effects))
      return await use(await within(setupLimitMs, loading))
    } finally {
      await effects.close()
    }
  }
  const schemaOf = ({ config, configSchema }: Loaded): object =>
    configSchema ?? z.toJSONSchema(config ?? z.object({}), { io: 'input', unrepresentable: 'any' })

  const view = async (
    { found, overrides }: Unit,
    schema: object | null,
    problem = '',
  ): Promise<ExtensionConfig> => {
    const problems = problem ? [problem] : []
    const stored = await readStored(fileOf(configDir, found.id)).catch(error => {
      problems.push(messageOf(error))
      return {}
    })
    return { stored, overrides, schema, problem: problems.join('; ') || null }
  }

  const store = async (unit: Unit, definition: Loaded, edit: (now: ExtensionConfig) => Readonly<Values>) => {
    const file = fileOf(configDir, unit.found.id)
    const next = edit(await view(unit, schemaOf(definition)))
    checkPlain(next)
    const text = `${JSON.stringify(next, null, 2)}\n`
    if (text.length > lengthLimit)
      throw new HttpError(422, `it is ${text.length} characters long; ${lengthLimit} are allowed`)
    const parsed = await parse(next, definition, unit, file)
    if ('mistake' in parsed) throw new HttpError(422, parsed.mistake.replace(`config (${file}): `, ''))
    // What cannot be read is somebody's work all the same.
    await readStored(file).catch(() => keepAside(file))
    await writeDurably(file, text)
  }

  return {
    async config(id) {
      const unit = unitOf(id)
      return withDefinition(unit, async definition => view(unit, schemaOf(definition))).catch(error =>
        view(unit, null, messageOf(error)),
      )
    },
    async configure(id, edit) {
      const unit = unitOf(id)
      await inTurn(() =>
        withDefinition(unit, definition => store(unit, definition, edit)).catch(error => {
          if (isHttpError(error) || error.syscall) throw error
          throw new HttpError(
            409,
            `what ${id} takes is not known, and nothing was stored: ${messageOf(error)}`,
          )
        }),
      )
      await unit.starting
      if (unit.isEnabled && unit.state !== 'quarantined') return life.enable(id, true)
      return life.list().find(record => record.id === id)!
    },
  }
}
