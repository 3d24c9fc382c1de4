// `ctl watch`: events as they happen, one JSON object a line, through restarts of the host.
import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidArgumentError, type Command as Parser } from 'commander'
import { tailCursor } from 'svc-host/api/events'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'

/** Waits between tries, doubled from the first to the last, each times 0.5 to 1.5. */
const firstWaitMs = 500
const lastWaitMs = 15_000
/** A connection that lasted this long was a good one. */
const healthyMs = 30_000

interface WatchOptions {
  kinds?: string
  since?: number
}

function parseSeq(text: string): number {
  if (!/^\d{1,16}$/.test(text))
    throw new InvalidArgumentError('It is the number of an event; 0 replays all there is.')
  return Number(text)
}

const resync = { kind: 'ctl.resync', message: 'events may have been missed; read state again' }

/** The cursor to begin with: none for 0, the tail when nothing was asked for. */
const firstCursor = (since: number | undefined): string | undefined =>
  since === 0 ? undefined : String(since ?? tailCursor)

/** Follows the stream until `signal` is aborted. Throws when the host cannot be reached at first, or refuses. */
export async function watch(
  host: Pick<ApiClient, 'events'>,
  { kinds, since }: WatchOptions,
  signal: AbortSignal,
  print: (line: object) => void,
  random: () => number = Math.random,
): Promise<void> {
  let cursor = firstCursor(since)
  let waitMs = firstWaitMs
  let everConnected = false
  let hadToWait = false
  while (!signal.aborted) {
    const startedMs = performance.now()
    let message = 'the host ended the stream'
    try {
      for await (const { event, id, data } of host.events({ kinds, lastEventId: cursor, signal })) {
        everConnected = true
        if (event === 'dropped') print(resync)
        else if (event !== 'live') print(data as object)
        else if (hadToWait && cursor === String(tailCursor)) print(resync)
        if (id !== null) cursor = id
      }
    } catch (error) {
      // A refusal stays one, except for the places that other readers hold and a host that is just starting.
      const passing =
        error instanceof ApiError &&
        (error.code === 'unreachable' || (error.status ?? 0) >= 500 || error.status === 404)
      if (!everConnected || !passing) throw error
      message = error.message
    }
    if (signal.aborted) return
    hadToWait = true
    print({ kind: 'ctl.disconnected', message })
    if (performance.now() - startedMs >= healthyMs) waitMs = firstWaitMs
    await sleep(waitMs * (0.5 + random()), undefined, { signal }).catch(() => {})
    waitMs = Math.min(waitMs * 2, lastWaitMs)
  }
}

export function declareWatch(program: Parser, context: CommandContext): void {
  program
    .command('watch')
    .description('events as they happen, one JSON object a line, until Ctrl-C')
    .option('--kinds <list>', 'only these: exact kinds, domain.* or *, separated by commas')
    .option('--since <seq>', 'replay first what happened after this event; 0 for all that is kept', parseSeq)
    .action(async (options: WatchOptions) => {
      const host = await context.connect()
      await watch(host, options, context.signal, line => void context.out.write(`${JSON.stringify(line)}\n`))
    })
}
