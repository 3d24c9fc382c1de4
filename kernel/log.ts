// The log: one line each, always with the extension it belongs to; JSON, or text on a terminal.

import { pino } from 'pino'
import type { Log } from 'svc-host/sdk'
import { UsageError } from './errors.ts'

const levels = ['error', 'warn', 'info', 'debug', 'trace']

/** Fields that may never be read in a log, whoever logs them. */
const secret = ['token', 'secret', 'password', 'privateKey', 'privateKeyPem', 'authorization', 'cookie']

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

/** Makes the log of each extension. `level` as of `SVC_LOG`, default `info`. */
export function createLog(level = 'info', sink: LogSink = standardOutput): (extension: string) => Log {
  if (!levels.includes(level)) {
    throw new UsageError(`SVC_LOG is "${level}": expected one of ${levels.join(', ')}`)
  }
  const root = pino(
    { level, base: null, redact: { paths: secret.flatMap(name => [name, `*.${name}`]), censor: '[secret]' } },
    sink,
  )
  return extension => {
    const child = root.child({ extension })
    return {
      debug: (message, fields) => child.debug(fields ?? {}, message),
      info: (message, fields) => child.info(fields ?? {}, message),
      warn: (message, fields) => child.warn(fields ?? {}, message),
      error: (message, fields) => child.error(fields ?? {}, message),
    }
  }
}
