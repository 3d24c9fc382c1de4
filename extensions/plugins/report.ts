// What the `plugins` command says about extensions.
import { type Colour, plain, table } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import type { ExtensionRecord } from 'svc-host/sdk'
import type { InstalledRow, Permissions } from './schema.ts'

export const stateColours: Record<ExtensionRecord['state'], Colour> = {
  on: 'green',
  off: 'dim',
  waiting: 'yellow',
  starting: 'yellow',
  stopping: 'yellow',
  failed: 'red',
  quarantined: 'red',
}

/** Every extension, as the host tells it. */
export const listOf = async (host: ApiClient): Promise<readonly ExtensionRecord[]> =>
  (await host.request<{ extensions: ExtensionRecord[] }>('GET', '/extensions')).extensions

export const hasFailed = ({ state }: ExtensionRecord): boolean =>
  state === 'failed' || state === 'quarantined'

/** Why it is as it is, and what went wrong since the host started. */
function remark({ state, why, errors, title }: ExtensionRecord): string {
  const said = why ?? (state === 'on' ? title : '')
  const slips = errors ? `${errors} error${errors === 1 ? '' : 's'} since the host started` : ''
  return [said, slips].filter(Boolean).join('; ')
}

export function listText(out: NodeJS.WritableStream, records: readonly ExtensionRecord[]): string {
  const on = records.filter(({ state }) => state === 'on').length
  const rows = records.map(record => [
    record.id,
    { text: record.state, colour: stateColours[record.state] },
    record.version,
    record.builtin ? 'built in' : record.realm,
    remark(record),
  ])
  const waiting = records.filter(({ permissions }) => permissions.some(({ state }) => state === 'asked'))
  const grants = waiting.map(({ id }) => `\n${id} waits for you: svc-host plugins grant ${id}`)
  const head = ['ID', 'STATE', 'VERSION', 'FROM', 'WHY']
  return `${table(out, head, rows)}\n\n${on} of ${records.length} are on.${grants.join('')}`
}

/** One sentence for each extension that was switched, and for each other one that this has changed. */
export function outcomeText(
  ids: readonly string[],
  before: readonly ExtensionRecord[],
  after: readonly ExtensionRecord[],
): string {
  const stateBefore = new Map(before.map(({ id, state }) => [id, state]))
  const switched = after.filter(({ id }) => ids.includes(id))
  const followed = after.filter(({ id, state }) => !ids.includes(id) && stateBefore.get(id) !== state)
  return [...switched, ...followed].map(sentence).join('\n')
}

/** How one is now. */
export const sentence = ({ id, state, why }: ExtensionRecord): string => {
  const reason = why && state !== 'off' ? `: ${plain(why)}` : ''
  return `${id} is ${state}${reason}`.replace(/\.?$/, '.')
}

/** All that is known of one, a line for each fact. */
export function detailText(
  record: ExtensionRecord | undefined,
  row: InstalledRow | undefined,
  entry:
    | { readonly title: string; readonly version: string; readonly tier: string; readonly source: string }
    | undefined,
  permissions: readonly Permissions['permissions'][number][] = [],
): string {
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['title', record?.title ?? row?.title ?? entry?.title],
    ['package', row?.pkg],
    ['version', row?.version ?? record?.version],
    ['state', record && (record.why ? `${record.state}: ${record.why}` : record.state)],
    ['from', record?.builtin ? 'built in' : row?.tier],
    ['realm', record?.realm ?? (row?.unit && 'plugin runner')],
    ...permissions.map(({ permission, state, meaning }) => [state, `${permission} (${meaning})`] as const),
    ['provides', record?.provides.join(', ')],
    ['requires', record?.requires.join(', ')],
    ...(record?.effects ?? []).map((effect, at) => [at ? '' : 'in effect', effect] as const),
    ['errors', record && String(record.errors)],
    ...(record?.taps ?? []).map(
      ({ hook, calls, p50_ms, p99_ms }) =>
        [
          `at ${hook}`,
          calls ? `${calls} calls, p50 ${p50_ms} ms, p99 ${p99_ms} ms` : 'not called yet',
        ] as const,
    ),
    [
      'installed',
      row?.installed_at === undefined ? undefined : new Date(row.installed_at * 1000).toISOString(),
    ],
    ['sha512', row?.integrity],
    ['before it', row?.previous_version],
    ['update', row?.update_available],
    ['pinned', row?.pinned ? 'yes' : undefined],
    ['blocked', row?.blocked],
    ['in catalog', entry && `${entry.version} of ${entry.source} (${entry.tier})`],
  ]
  const given = facts.filter((fact): fact is [string, string] => fact[1] !== undefined && fact[1] !== '')
  return given.map(([name, value]) => `${(name && `${name}:`).padEnd(11)} ${plain(value)}`).join('\n')
}
