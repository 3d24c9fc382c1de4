// The log: one line each, always with the extension it belongs to; JSON, or text on a terminal, and a ring in memory.

import { multistream, pino } from 'pino'
import type { HostLog, Log, LogRecord } from 'svc-host/sdk'
import { UsageError } from './errors.ts'

const levels = ['error', 'warn', 'info', 'debug', 'trace']

/** Fields that may never be read in a log, whoever logs them. */
const secret = ['token', 'secret', 'password', 'privateKey', 'privateKeyPem', 'authorization', 'cookie']
const redact = { paths: secret.flatMap(name => [name, `*.${name}`]), censor: '[secret]' }

/** Lines that are kept in memory (wire-decisions, "Limits"): debug and above, whatever the level of the output. */
const ringSize = 4096

export interface LogSink {
  write(line: string): void
}

/** For people: time, level, extension, message, and the fields as they are. */
export function describeLine(line: string): string {
  const { level, time, extension, msg, err, ...fields } = JSON.parse(line)
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  const stack = err?.stack ? `\n    ${String(err.stack).replaceAll('\n', '\n    ')}` : ''
  const name = pino.levels.labels[level]?.toUpperCase().padEnd(5)
  return `${new Date(time).toISOString().slice(11, 23)} ${name} ${extension}: ${msg}${rest.join('')}${stack}\n`
}

const standardOutput: LogSink = process.stdout.isTTY
  ? { write: line => void process.stdout.write(describeLine(line)) }
  : pino.destination({ dest: 1, sync: true })

/** A sink that keeps the newest lines, numbered; they are parsed only for whoever asks. */
function createRing(): HostLog & LogSink {
  const ring: string[] = []
  let newest = 0
  return {
    write(line) {
      newest += 1
      ring[newest % ringSize] = line
    },
    newest: () => newest,
    read(after, limit) {
      const first = Math.max(after, newest - ringSize) + 1
      const length = Math.max(0, Math.min(limit, newest - first + 1))
      return Array.from({ length }, (_, at): LogRecord => {
        const { level, time, extension, msg, ...fields } = JSON.parse(ring[(first + at) % ringSize]!)
        const name = pino.levels.labels[level] as LogRecord['level']
        return { seq: first + at, tsMs: time, level: name, extension, message: msg, fields }
      })
    },
  }
}

/** The log of each extension, and what was last written. `level` as of `SVC_LOG`, default `info`. */
export function createLog(level = 'info', sink: LogSink = standardOutput) {
  if (!levels.includes(level)) {
    throw new UsageError(`SVC_LOG is "${level}": expected one of ${levels.join(', ')}`)
  }
  const ring = createRing()
  const streams = multistream({ stream: sink, level: level as pino.Level }).add({
    stream: ring,
    level: 'debug',
  })
  const root = pino({ level: 'debug', base: null, redact }, streams)
  const logOf = (extension: string): Log => {
    const child = root.child({ extension })
    return {
      debug: (message, fields) => child.debug(fields ?? {}, message),
      info: (message, fields) => child.info(fields ?? {}, message),
      warn: (message, fields) => child.warn(fields ?? {}, message),
      error: (message, fields) => child.error(fields ?? {}, message),
    }
  }
  return { logOf, ring }
}
