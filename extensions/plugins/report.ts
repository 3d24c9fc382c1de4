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

const sentence = ({ id, state, why }: ExtensionRecord): string => {
  const reason = why && state !== 'off' ? `: ${plain(why)}` : ''
  return `${id} is ${state}${reason}`.replace(/\.?$/, '.')
}
