// The config of an extension as the API shows and takes it: with what goes over it, its defaults, and no secret.
import { createHmac, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type ExtensionConfig, HttpError } from 'svc-host/sdk'
import type { ConfigRecord } from './config-record.ts'
import {
  configDepth,
  defaultsOf,
  isRecord,
  isSecret,
  type Json,
  mapped,
  type Path,
  type Spot,
} from './config-schema.ts'

const mark = /^\(secret [0-9a-f]{16}\)$/

const at = (values: unknown, path: Path): unknown =>
  path.reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), values)

export interface ConfigViews {
  show(id: string, config: ExtensionConfig): ConfigRecord
  /** What is to be stored: with each secret that was left as it was shown; throws a refusal. */
  take(config: ExtensionConfig, values: Json, revision: string | undefined): Json
}

/** Marks and revisions are made with a key of this process, so that no secret can be guessed from them. */
export function createConfigViews(): ConfigViews {
  const key = randomBytes(32)
  const digest = (value: unknown): string =>
    createHmac('sha256', key).update(JSON.stringify(value)).digest('hex').slice(0, 16)
  const hidden = (value: unknown): string => `(secret ${digest(value)})`
  const hide = (spot: Spot): unknown =>
    isSecret(spot) && spot.value !== undefined ? hidden(spot.value) : undefined

  return {
    show(id, { stored, overrides, schema, problem }) {
      const unknown: string[][] = []
      const values = mapped(schema, stored, spot => {
        if (spot.isUnread) unknown.push([...spot.path])
        return hide(spot)
      })
      const shown = overrides.map(({ at: path, value, source }) => {
        const around = path.reduceRight<unknown>((inner, part) => ({ [part]: inner }), value)
        return { path: [...path], value: at(mapped(schema, around, hide), path), source }
      })
      return {
        id,
        values: values as Record<string, unknown>,
        defaults: defaultsOf(schema),
        overrides: shown,
        unknown,
        schema: schema as Record<string, unknown> | null,
        problem,
        revision: digest(stored),
      }
    },
    take({ stored, overrides, schema }, values, revision) {
      if (revision !== undefined && revision !== digest(stored))
        throw new HttpError(412, 'the config has changed since it was read; read it again')
      const secrets = new Map<string, unknown>()
      mapped(schema, stored, spot => {
        if (isSecret(spot)) secrets.set(hidden(spot.value), spot.value)
        return undefined
      })
      const next = mapped(schema, values, spot => {
        if (spot.path.length > configDepth)
          throw new HttpError(422, `${spot.path[0]}: a config may be ${configDepth} levels deep`)
        if (!isSecret(spot) || typeof spot.value !== 'string' || !mark.test(spot.value)) return undefined
        if (secrets.has(spot.value)) return secrets.get(spot.value)
        const what = 'this stands for a secret that is not stored any more; give the secret itself'
        throw new HttpError(422, `${spot.path.join('.')}: ${what}`)
      }) as Json
      for (const { at: path, source } of overrides)
        if (!isDeepStrictEqual(at(next, path), at(stored, path)))
          throw new HttpError(409, `${path.join('.')} is set by ${source}, which goes first; change it there`)
      return next
    },
  }
}
