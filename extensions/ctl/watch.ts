// `ctl watch`: events as they happen, one JSON object a line, through restarts of the host.
import { InvalidArgumentError, type Command as Parser } from 'commander'
import type { ApiClient } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'

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

/** Follows events until `signal` is aborted. Throws when the host cannot be reached at first, or refuses. */
export async function watch(
  host: Pick<ApiClient, 'follow'>,
  options: WatchOptions,
  signal: AbortSignal,
  print: (line: object) => void,
): Promise<void> {
  let everConnected = false
  for await (const each of host.follow({ ...options, signal })) {
    if (each.type === 'disconnected') {
      if (!everConnected) throw each.error
      print({ kind: 'ctl.disconnected', message: each.error.message })
      continue
    }
    everConnected = true
    if (each.type === 'dropped') print(resync)
    else if (each.type !== 'live') print(each.event)
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
