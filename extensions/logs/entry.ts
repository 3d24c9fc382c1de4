// One line of the log as one entry of the API.
import type { LogRecord } from 'svc-host/sdk'
import type { LogEntry } from './api.ts'

/** Bare where the value is one plain word, JSON otherwise, so that an entry can be read and searched. */
const show = (value: unknown): string =>
  typeof value === 'string' && /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value)

/** The stack begins with the error's name and message; it stands on lines of its own. */
const showError = (error: unknown): string => {
  const { stack, message } = (error ?? {}) as { stack?: unknown; message?: unknown }
  return `\n${String(stack ?? message ?? error)}`
}

export function entryOf({ seq, tsMs, level, extension, message, fields }: LogRecord): LogEntry {
  // Lines that others have written beside the host come with a name and a time of their own.
  const { err, target, ts_ms, ...own } = fields
  const isForeign = typeof target === 'string' && target.startsWith('plugin:')
  const rest = isForeign
    ? own
    : { ...own, ...(target !== undefined && { target }), ...(ts_ms !== undefined && { ts_ms }) }
  const pairs = Object.entries(rest).map(([key, value]) => ` ${key}=${show(value)}`)
  return {
    seq,
    ts_ms: isForeign && typeof ts_ms === 'number' ? ts_ms : tsMs,
    level: level.toUpperCase() as LogEntry['level'],
    target: isForeign ? target : extension,
    msg: message + pairs.join('') + (err === undefined ? '' : showError(err)),
  }
}
