// The verb that shows, live or once, what extensions use.
import process from 'node:process'
import type { Command } from 'commander'
import { UsageError } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import { listOf } from './report.ts'
import { nextKey, openScreen, painted, picture, rowsOf, type Sample, type SortKey, watchTop } from './top.ts'

const usualWidth = 80
/** Between the two looks that a rate needs. */
const onceMs = 500

/** Calls `press` with each key that is typed; returns the way back. */
function readKeys(input: NodeJS.ReadStream, press: (key: string) => void): () => void {
  if (!input.isTTY) return () => {}
  const read = (data: Buffer): void => [...data.toString()].forEach(press)
  input.setRawMode(true)
  input.on('data', read).resume()
  return () => {
    input.off('data', read).pause()
    input.setRawMode(false)
  }
}

export function topVerb(program: Command, context: CommandContext): void {
  const { out, signal } = context
  const terminal = out as NodeJS.WritableStream & Partial<NodeJS.WriteStream>
  program
    .command('top')
    .description(
      'what each extension uses and how it fares, every second; keys: q quits, s sorts by another column',
    )
    .option('--once', 'one picture; so it is where the output is no terminal')
    .option('--interval <seconds>', 'between two looks', '1')
    .option('--json', 'one JSON object a line')
    .action(async ({ once, interval, json }: { once?: boolean; interval: string; json?: boolean }) => {
      const intervalMs = Number(interval) * 1000
      if (!/^\d+(\.\d+)?$/.test(interval) || intervalMs < 100 || intervalMs > 3_600_000)
        throw new UsageError('--interval: expected seconds, from 0.1 to 3600')
      let host: ApiClient | undefined = await context.connect()
      const look = async () => {
        host ??= await context.connect()
        try {
          return await listOf(host)
        } catch (error) {
          // One that has started anew may have another port.
          host = undefined
          throw error
        }
      }
      let key: SortKey = 'cpu'
      const isLive = !once && !json && terminal.isTTY === true
      const isOnce = once === true || (!json && !isLive)
      const ended = new AbortController()
      const print = (samples: readonly Sample[]): void => {
        const rows = rowsOf(samples, key)
        if (json)
          out.write(
            `${JSON.stringify({ v: 1, data: { at_unix_ms: samples.at(-1)!.atUnixMs, extensions: rows } })}\n`,
          )
        else
          out.write(
            `${picture(rows, { key, width: terminal.columns ?? usualWidth, isLive: false }, painted(out)).join('\n')}\n`,
          )
      }
      const both = AbortSignal.any([signal, ended.signal])
      if (!isLive)
        return watchTop({
          look,
          intervalMs: isOnce ? onceMs : intervalMs,
          signal: both,
          show(samples, trouble) {
            if (isOnce && samples.length < 2 && trouble === undefined) return
            if (trouble === undefined) print(samples)
            else if (json)
              out.write(`${JSON.stringify({ v: 1, error: { code: 'unreachable', message: trouble } })}\n`)
            if (isOnce) ended.abort()
          },
        })
      const screen = openScreen(out)
      let redraw = (): void => {}
      const stopKeys = readKeys(process.stdin, typed => {
        if (typed === 'q' || typed === '\u0003' || typed === '\u001b') ended.abort()
        if (typed === 's') key = nextKey(key)
        redraw()
      })
      terminal.on('resize', () => redraw())
      try {
        await watchTop({
          look,
          intervalMs,
          signal: both,
          show(samples, trouble) {
            redraw = () => {
              const frame = {
                key,
                width: terminal.columns ?? usualWidth,
                height: terminal.rows ?? 24,
                trouble,
                isLive,
              }
              screen.draw(picture(rowsOf(samples, key), frame, painted(out)))
            }
            redraw()
          },
        })
      } finally {
        stopKeys()
        screen.close()
      }
    })
}
