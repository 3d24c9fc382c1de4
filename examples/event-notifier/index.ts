// Tells of events elsewhere: formats them and posts them as JSON to the address in its config, in order and one at a time.
import { defineExtension, type EventRecord } from 'svc-host/sdk'
import { z } from 'zod'
import { notice } from './notice.ts'

const waitingLimit = 100
const tries = 3

export default defineExtension({
  config: z.object({
    url: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe('where to post to; the permission follows it'),
    kinds: z
      .array(z.string())
      .default(['session.started', 'session.ended'])
      .describe('kinds of events that are told'),
    template: z
      .string()
      .default('{kind}')
      .describe('the text; {field} and {field.field} stand for what the event holds'),
    textField: z.string().min(1).default('text').describe('where the text goes in the JSON, such as content'),
    retryMs: z
      .number()
      .int()
      .min(10)
      .max(60_000)
      .default(2000)
      .describe('pause before a post is tried again'),
  }),
  setup(ctx) {
    const { url, kinds, template, textField, retryMs } = ctx.config
    if (!url)
      return ctx.log.warn(
        'it has no url and tells nobody; run svc-host plugins config set event-notifier url=…',
      )
    const waiting: EventRecord[] = []
    let isPosting = false

    const post = async (event: EventRecord): Promise<void> => {
      const answer = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ [textField]: notice(template, event), event }),
        signal: ctx.signal,
      })
      if (!answer.ok) throw new Error(`it answered ${answer.status}`)
    }
    const pause = (): Promise<void> => new Promise(done => setTimeout(done, retryMs))
    const work = async (): Promise<void> => {
      isPosting = true
      for (let event = waiting.shift(); event && !ctx.signal.aborted; event = waiting.shift()) {
        for (let left = tries - 1; left >= 0; left--) {
          try {
            await post(event)
            break
          } catch (error) {
            if (ctx.signal.aborted) return
            const why = error instanceof Error ? error.message : String(error)
            ctx.log.warn(
              `${event.kind} could not be told (${why})${left ? '; it is tried again' : ' and is left out'}`,
            )
            if (left) await pause()
          }
        }
      }
      isPosting = false
    }

    for (const kind of kinds)
      ctx.on({ kind, payload: z.looseObject({}) }, event => {
        if (waiting.push(event) > waitingLimit) {
          const dropped = waiting.shift()!
          ctx.log.warn(`${waitingLimit} events wait already; ${dropped.kind} is left out`)
        }
        if (!isPosting) void work()
      })
  },
})
