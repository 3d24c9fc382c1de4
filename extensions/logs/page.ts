// Pages of the log: what a reader with a cursor gets, and whether it has missed something.
import type { HostLog } from 'svc-host/sdk'
import type { LogPage } from './api.ts'
import { entryOf } from './entry.ts'

/** Entries of a page, unless fewer are asked for. */
export const pageSize = 1000

export function pageAfter(log: HostLog, after: number, limit: number): LogPage {
  // 0 counts as unset.
  const entries = log.read(after, Math.min(limit || pageSize, pageSize)).map(entryOf)
  const first = entries[0]?.seq
  // A cursor above the newest entry is of another life of the host, whose entries have all gone with it.
  const dropped = first === undefined ? after > log.newest() : first > after + 1
  return { entries, next: entries.at(-1)?.seq ?? after, dropped }
}
