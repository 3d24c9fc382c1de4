// Lines of the host's log over the API: all that are kept, and those that come.
import { setTimeout as delay } from 'node:timers/promises'
import { type ApiClient, ApiError } from 'svc-host/client'

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

export interface Following {
  /** Number of the newest line that is known already. */
  readonly after: number
  readonly signal: AbortSignal
  /** Connects anew once the host has gone. */
  connect(): Promise<ApiClient>
  /** Told when lines were gone before they could be read, and when the host does not answer. */
  trouble(what: string): void
}

/** Those that come, through restarts of the host, until `signal` is aborted. */
export async function* linesAfter(first: ApiClient, options: Following): AsyncGenerator<LogLine> {
  const { signal, connect, trouble } = options
  let { after } = options
  let host: ApiClient | undefined = first
  let isSilent = false
  while (!signal.aborted) {
    let page: Page = { entries: [], next: after, dropped: false }
    try {
      host ??= await connect()
      page = await pageAfter(host, after)
      isSilent = false
    } catch (error) {
      // One that is stopping, or whose log is switched off, refuses; it may come back.
      if (!(error instanceof ApiError) || !['unreachable', 'refused'].includes(error.code)) throw error
      if (error.code === 'unreachable') {
        host = undefined
        // The one that comes counts anew.
        after = 0
        page = { ...page, next: 0 }
      }
      if (!isSilent) trouble(error.message)
      isSilent = true
    }
    const { entries, next, dropped } = page
    // A cursor of an earlier life of the host: that one's lines have gone with it.
    if (dropped && entries.length > 0) trouble('some lines were gone before they could be read')
    yield* entries
    after = dropped && entries.length === 0 ? 0 : next
    if (entries.length === 0 && !dropped) await delay(pollMs, undefined, { signal }).catch(() => {})
  }
}
