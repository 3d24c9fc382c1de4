// What the `plugins` command says about extensions.
import { type Colour, plain, table } from 'svc-host/api/ctl'
import type { ExtensionRecord } from 'svc-host/sdk'

const colours: Record<ExtensionRecord['state'], Colour> = {
  on: 'green',
  off: 'dim',
  waiting: 'yellow',
  starting: 'yellow',
  stopping: 'yellow',
  failed: 'red',
  quarantined: 'red',
}

export const hasFailed = ({ state }: ExtensionRecord): boolean =>
  state === 'failed' || state === 'quarantined'

/** Why it is as it is, and what went wrong since the host started. */
function remark({ state, why, errors, title }: ExtensionRecord): string {
  const said = why ?? (state === 'on' ? title : '')
  const slips = errors ? `${errors} error${errors === 1 ? '' : 's'} since the start` : ''
  return [said, slips].filter(Boolean).join('; ')
}

export function listText(out: NodeJS.WritableStream, records: readonly ExtensionRecord[]): string {
  const on = records.filter(({ state }) => state === 'on').length
  const rows = records.map(record => [
    record.id,
    { text: record.state, colour: colours[record.state] },
    record.version,
    record.builtin ? 'built in' : record.realm,
    remark(record),
  ])
  return `${table(out, ['ID', 'STATE', 'VERSION', 'FROM', 'WHY'], rows)}\n\n${on} of ${records.length} are on.`
}

/** One sentence for each extension that was switched, and for each that waits for it now. */
export function outcomeText(
  changed: readonly ExtensionRecord[],
  enabled: boolean,
  all: readonly ExtensionRecord[],
): string {
  const names = new Set(changed.map(({ id }) => id))
  const waiting = enabled ? [] : all.filter(({ id, state }) => state === 'waiting' && !names.has(id))
  return [
    ...changed.map(({ id, state, why }) => sentence(`${id} is ${state}`, why)),
    ...waiting.map(({ id, why }) => sentence(`${id} waits`, why)),
  ].join('\n')
}

const sentence = (what: string, why: string | null): string =>
  `${what}${why ? `: ${plain(why)}` : ''}`.replace(/\.?$/, '.')
