// The verb that shows what an extension has logged, and follows it.
import type { Command } from 'commander'
import { type Colour, paint, plain, UsageError, type Verb } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import { runtimeOf } from './doctor-host.ts'
import { allLines, type LogLine, linesAfter } from './log-lines.ts'
import { listOf } from './report.ts'

const levels = ['ERROR', 'WARN', 'INFO', 'DEBUG', 'TRACE'] as const
const colours: Partial<Record<LogLine['level'], Colour>> = {
  ERROR: 'red',
  WARN: 'yellow',
  DEBUG: 'dim',
  TRACE: 'dim',
}

function lineText(out: NodeJS.WritableStream, { ts_ms, level, msg }: LogLine): string {
  const colour = colours[level]
  const shown = level.padEnd(5)
  // What an error brings along stands under its line.
  const text = msg.split('\n').map(plain).join('\n    ')
  return `${new Date(ts_ms).toISOString()} ${colour ? paint(out, colour, shown) : shown} ${text}`
}

interface Flags {
  readonly lines: string
  readonly level: string
  readonly follow?: boolean
  readonly json?: boolean
}

export function logVerb(program: Command, context: CommandContext, online: Verb): void {
  const { out, err, signal } = context
  program
    .command('logs')
    .description('what an extension, or a unit of the runner, has logged; errors with where they happened')
    .argument('<id>')
    .option('-f, --follow', 'go on with what comes, until Ctrl-C')
    .option('-n, --lines <n>', 'at most so many of those that are there', '50')
    .option('--level <level>', 'this and what is graver: error, warn, info, debug, trace', 'debug')
    .option('--json', 'machine-readable; with --follow one line each')
    .action((id: string, { lines, level, follow, json }: Flags) => {
      const least = levels.indexOf(level.toUpperCase() as LogLine['level'])
      if (!/^\d{1,4}$/.test(lines)) throw new UsageError('--lines: expected a whole number up to 9999')
      if (least < 0)
        throw new UsageError(`--level ${plain(level)}: expected ${levels.join(', ').toLowerCase()}`)
      const isMeant = (line: LogLine): boolean =>
        [id, `plugin:${id}`].includes(line.target) && levels.indexOf(line.level) <= least
      const newest = (all: readonly LogLine[]): LogLine[] =>
        Number(lines) ? all.filter(isMeant).slice(-Number(lines)) : []
      const print = (line: LogLine): unknown =>
        out.write(`${json ? JSON.stringify(line) : lineText(out, line)}\n`)
      const checkId = async (host: ApiClient, found: readonly LogLine[]): Promise<void> => {
        if (found.length) return
        const known = [...(await listOf(host)), ...(await runtimeOf(host)).units]
        if (known.some(each => each.id === id)) return
        throw new UsageError(
          `there is neither an extension nor a unit "${plain(id)}", and nothing was logged under that name`,
        )
      }
      if (!follow)
        return online(async host => {
          const entries = newest(await allLines(host))
          await checkId(host, entries)
          const text = entries.map(line => lineText(out, line)).join('\n')
          return { data: { entries }, text: text || `${id} has logged nothing` }
        })
      return (async () => {
        const host = await context.connect()
        const all = await allLines(host)
        const first = newest(all)
        await checkId(host, first)
        first.forEach(print)
        const trouble = (what: string): void => void err.write(`${plain(what)}\n`)
        const after = all.at(-1)?.seq ?? 0
        for await (const line of linesAfter(host, { after, signal, connect: context.connect, trouble }))
          if (isMeant(line)) print(line)
      })()
    })
}
