// What only a running host can tell: how its extensions fare, and what they lack.
import { orElse } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import type { ExtensionRecord } from 'svc-host/sdk'
import type { ConfigRecord } from './config-record.ts'
import type { Check, Finding } from './doctor.ts'
import { allLines } from './log-lines.ts'
import type { InstalledRow } from './schema.ts'

type Found = Omit<Finding, 'check'>

interface Source {
  readonly name: string
  readonly url: string
  readonly stale: boolean
  readonly error?: string
}

interface Runtime {
  readonly installed: boolean
  readonly enabled: boolean
  readonly running: boolean
  readonly detail?: string
  readonly units: readonly { readonly id: string; readonly state: string; readonly why?: string }[]
}
const silent: Runtime = { installed: false, enabled: false, running: false, units: [] }

/** The plugin runner, and scripts and packages that it runs. */
export const runtimeOf = (host: ApiClient): Promise<Runtime> =>
  orElse(host.request<Runtime>('GET', '/store/runtime'), silent)

/** What to do about one that is not on as it should be. */
function remedyFor({ id, state, permissions, builtin }: ExtensionRecord): string {
  if (permissions.some(each => each.state === 'asked')) return `svc-host plugins grant ${id}`
  if (state === 'quarantined')
    return `svc-host plugins enable ${id} tries it again; svc-host plugins logs ${id} says more`
  if (state === 'waiting') return 'it starts by itself once that is there'
  const other = builtin ? '' : `, or svc-host plugins rollback ${id}`
  return `svc-host plugins logs ${id}; mended: svc-host plugins restart ${id}${other}`
}

function stateOf(record: ExtensionRecord): Found[] {
  const { id, state, why, enabled } = record
  if (!enabled || state === 'on' || state === 'starting' || state === 'stopping' || state === 'off') return []
  const level = state === 'waiting' ? 'warning' : 'error'
  return [{ level, id, what: `is ${state}: ${why}`, remedy: remedyFor(record) }]
}

const permissionRefused = /has not been granted ([^;]+);|does not ask for ([^;]+);/
const configMissing = /has not set (\S+) to what leads to (\S+) /

/** `host` rejects where none answers, and then each of these is skipped. */
export function hostChecks(host: ApiClient, records: readonly ExtensionRecord[]): Check[] {
  return [
    { name: 'states', look: async () => records.flatMap(stateOf) },
    {
      name: 'permissions',
      async look() {
        const lines = await allLines(host)
        const lacking = new Map<string, Found>()
        for (const { target, msg } of lines) {
          const [, refused, unasked] = permissionRefused.exec(msg) ?? []
          const [, key, place] = configMissing.exec(msg) ?? []
          const permission = refused ?? unasked ?? place
          const id = target.replace(/^plugin:/, '')
          const record = records.find(each => each.id === id)
          if (permission === undefined || !record) continue
          const isMended = record.permissions.some(
            each => each.permission === permission && each.state === 'granted',
          )
          if (isMended) continue
          const remedy = refused
            ? `svc-host plugins grant ${id} '${permission}', or leave it as it is`
            : key
              ? `svc-host plugins config set ${id} ${key}=…`
              : 'its author has to ask for it; look for an update'
          lacking.set(`${id} ${permission}`, {
            level: 'warning',
            id,
            what: `has lately missed ${permission}`,
            remedy,
          })
        }
        return [...lacking.values()]
      },
    },
    {
      name: 'units',
      async look() {
        const { installed, enabled, running, detail, units } = await runtimeOf(host)
        const remedy = 'svc-host plugins info runner'
        const isSilent = installed && enabled && !running
        const runner: Found = {
          level: 'error',
          what: `the plugin runner does not run: ${detail ?? 'nobody says why'}`,
          remedy,
        }
        const bad = units.filter(({ state }) => ['failed', 'refused', 'restarting'].includes(state))
        return [
          ...(isSilent ? [runner] : []),
          ...bad.map(({ id, state, why }): Found => {
            const level = state === 'restarting' ? 'warning' : 'error'
            return {
              level,
              id,
              what: `is ${state}: ${why ?? 'nobody says why'}`,
              remedy: `svc-host plugins logs ${id}`,
            }
          }),
        ]
      },
    },
    {
      name: 'errors',
      look: async () =>
        records.flatMap(({ id, errors, restarts }): Found[] => {
          if (errors === 0 && restarts === 0) return []
          const what = `errors since the host started: ${errors}, restarts: ${restarts}`
          return [{ level: 'warning', id, what, remedy: `svc-host plugins logs ${id}` }]
        }),
    },
    {
      name: 'configs',
      async look() {
        const found: Found[] = []
        for (const { id, state } of records) {
          // Nothing is loaded for this alone.
          if (state !== 'on') continue
          const url = `/extensions/${encodeURIComponent(id)}/config`
          const config = await orElse<ConfigRecord | undefined>(host.request('GET', url), undefined)
          if (config?.problem)
            found.push({
              level: 'warning',
              id,
              what: config.problem,
              remedy: `svc-host plugins config edit ${id}`,
            })
          for (const path of config?.unknown ?? []) {
            const key = path.join('.')
            const remedy = `check the spelling, or svc-host plugins config unset ${id} ${key}`
            found.push({ level: 'warning', id, what: `nobody reads ${key} of its config`, remedy })
          }
        }
        return found
      },
    },
    {
      name: 'catalogs',
      async look() {
        const sources = await orElse(host.request<Source[]>('GET', '/store/sources'), [])
        return (
          sources
            // Where none is configured there is nothing to read.
            .filter(({ url, error }) => url !== '' && error !== undefined)
            .map(({ name, stale, error }) => ({
              level: 'warning' as const,
              what: `the source ${name} ${stale ? 'is not fresh' : 'cannot be read'}: ${error}`,
              remedy: 'svc-host plugins search reads it anew',
            }))
        )
      },
    },
    {
      name: 'blocked',
      async look() {
        const rows = await orElse(host.request<InstalledRow[]>('GET', '/store/installed'), [])
        return rows.flatMap(({ plugin_id: id, pkg, version, blocked }): Found[] =>
          blocked === undefined
            ? []
            : [
                {
                  level: 'error',
                  ...(id !== undefined && { id }),
                  what: `${pkg} ${version} is blocked: ${blocked}`,
                  remedy: `svc-host plugins update ${id ?? pkg}, or remove it`,
                },
              ],
        )
      },
    },
  ]
}

export const withoutHost = (why: string): Check[] => [
  {
    name: 'host',
    look: async () => [{ level: 'skipped', what: `${why}; how extensions fare cannot be told` }],
  },
]
