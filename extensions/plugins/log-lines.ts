// Lines of the host's log over the API: all that are kept, and those that come.
import { setTimeout as delay } from 'node:timers/promises'
import type { ApiClient } from 'svc-host/client'

export interface LogLine {
  readonly seq: number
  readonly ts_ms: number
  readonly level: 'ERROR' | 'WARN' | 'INFO' | 'DEBUG' | 'TRACE'
  readonly target: string
  readonly msg: string
}
interface Page {
  readonly entries: readonly LogLine[]
  readonly next: number
  readonly dropped: boolean
}

const pollMs = 300

const pageAfter = (host: ApiClient, after: number): Promise<Page> =>
  host.request('GET', `/logs?after=${after}`)

/** All that is kept, oldest first. */
export async function allLines(host: ApiClient): Promise<LogLine[]> {
  const lines: LogLine[] = []
  for (let after = 0; ; ) {
    const { entries, next } = await pageAfter(host, after)
    if (entries.length === 0) return lines
    lines.push(...entries)
    after = next
  }
}

/** Those after `first`, until `signal` is aborted; `missed` is told when some were gone before they could be read. */
export async function* linesAfter(
  host: ApiClient,
  first: number,
  signal: AbortSignal,
  missed: () => void,
): AsyncGenerator<LogLine> {
  let after = first
  while (!signal.aborted) {
    const { entries, next, dropped } = await pageAfter(host, after)
    if (dropped) missed()
    yield* entries
    // A cursor of an earlier life of the host begins anew.
    after = dropped && entries.length === 0 ? 0 : next
    if (entries.length === 0) await delay(pollMs, undefined, { signal }).catch(() => {})
  }
}
