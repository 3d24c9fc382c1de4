// A package operation as the command line sees it: begun, watched, and its end as an answer or a refusal.
import { setTimeout as delay } from 'node:timers/promises'
import { paint, plain } from 'svc-host/api/ctl'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import type { Job } from './schema.ts'

const pollMs = 100

/** The version asks for more than was decided; nothing was changed. */
export class AskedForMore extends ApiError {
  readonly target: string
  readonly asks: readonly string[]
  constructor({ target, asks = [], error }: Job) {
    super('refused', plain(error ?? 'it asks for more than was decided'))
    this.target = target
    this.asks = asks
  }
}

const isTerminal = (out: NodeJS.WritableStream): boolean =>
  (out as Partial<NodeJS.WriteStream>).isTTY === true

/** Shows what goes on, on a terminal only. */
function createTicker({ err, argv }: CommandContext): { show(text: string): void; clear(): void } {
  const isShown = isTerminal(err) && !argv.includes('--json')
  return {
    show: text => isShown && err.write(`\r\u001b[K${paint(err, 'dim', plain(text))}`),
    clear: () => isShown && err.write('\r\u001b[K'),
  }
}

/** Begins an operation and resolves to its job once it is done; rejects with what the host says when it fails. */
export async function operate(
  context: CommandContext,
  host: ApiClient,
  path: string,
  body: object,
): Promise<Job> {
  const { job: id } = await host.request<{ job: string }>('POST', `/store/${path}`, body)
  const ticker = createTicker(context)
  try {
    for (;;) {
      const job = await host.request<Job>('GET', `/store/jobs/${id}`)
      if (job.error_code === 'permissions') throw new AskedForMore(job)
      if (job.state === 'failed') throw new ApiError('refused', plain(job.error ?? 'it has failed'))
      if (job.state === 'done') return job
      ticker.show(`${job.target}: ${job.phase} …`)
      await delay(pollMs, undefined, { signal: context.signal })
    }
  } finally {
    ticker.clear()
  }
}
