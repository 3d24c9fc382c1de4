// One extension behind a bridge, wherever it runs: calls both ways as messages, each checked, and no more of them than is sane.

import { HttpError, isHttpError, isPermissionError, PermissionError } from 'svc-host/sdk'
import { z } from 'zod'
import { parseStrict } from '../../sdk/realm/packets.ts'
import { messageOf } from '../errors.ts'

const batchLimit = 1024
/** Answers that it may owe, and that the host may owe it. */
const owedLimit = 4096
/** Characters of one message to it. */
const textLimit = 4 * 1024 * 1024

const Fault = z.object({
  message: z.string(),
  stack: z.string().optional(),
  status: z.int().min(400).max(599).optional(),
  permission: z.string().max(512).optional(),
})
type Message =
  | readonly ['do', id: number, verb: string, args: readonly unknown[]]
  | readonly ['done', id: number, isGood: true, value?: unknown]
  | readonly ['done', id: number, isGood: false, fault: z.output<typeof Fault>]

const isId = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && Number(value) >= least

/** By hand: it runs for every call, and a schema's tries would cost more than the call. */
function isMessage(value: unknown): value is Message {
  if (!Array.isArray(value)) return false
  const [kind, id, third, fourth] = value as unknown[]
  if (kind === 'do')
    return value.length === 4 && isId(id, 0) && typeof third === 'string' && Array.isArray(fourth)
  if (kind !== 'done' || !isId(id, 1) || value.length > 4) return false
  return third === true || (third === false && Fault.safeParse(fourth).success)
}

/** What the extension asks of the host. */
export type Serve = (verb: string, args: readonly unknown[]) => unknown

export interface Cell {
  /** Loads the package; rejects with the reason. */
  open(serve: Serve): Promise<void>
  /** Calls a function of the extension by its number. */
  call(target: number, args: readonly unknown[]): Promise<unknown>
  /** Calls without waiting; dropped when too much waits already. */
  tell(target: number | string, args: readonly unknown[]): void
  close(): Promise<void>
  /** Ends it at once; every call under way is rejected. */
  end(why: string): void
  isGone(): boolean
  cpuMs(): number
  memoryBytes(): number
  /** The most that it can have before it is ended. */
  readonly memoryLimitBytes: number
}

export interface CellOptions {
  /** Told of errors that nobody in the extension caught, and of requests that were refused. */
  report(during: string, error: unknown): void
  /** Whether it is slowed down, for it went beyond a budget. */
  isSlow(): boolean
  /** Told when it has gone, or has broken the rules of the bridge, with the reason; `isStarved`: for want of a processor. */
  lost(why: string, isStarved?: boolean): void
}

/** How messages get to the extension, and what it costs. */
export interface Carrier extends Pick<Cell, 'cpuMs' | 'memoryBytes' | 'memoryLimitBytes' | 'close'> {
  open(): Promise<void>
  hasRoom(): boolean
  send(message: string): void
}

/** What a carrier does with what comes. */
export interface Hands extends Pick<CellOptions, 'report' | 'isSlow'>, Pick<Cell, 'isGone'> {
  /** Takes a list of messages; throws where it is none. */
  take(text: string): void
  /** It has broken the rules, or its end has come. */
  fail(why: string, isStarved?: boolean): void
}

/** `name`: what it runs in, as sentences call it. */
export function createCell(
  name: string,
  { report, isSlow, lost }: CellOptions,
  connect: (hands: Hands) => Carrier,
): Cell {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let serve: Serve = () => undefined
  let lastId = 0
  let asked = 0
  let gone: string | undefined

  const end = (why: string): void => {
    if (gone !== undefined) return
    gone = why
    for (const { reject } of waiting.values()) reject(new Error(`its ${name} has ended: ${why}`))
    waiting.clear()
  }
  const fail: Hands['fail'] = (why, isStarved) => {
    if (gone !== undefined) return
    end(why)
    void carrier.close().catch(() => {})
    lost(why, isStarved)
  }

  const perform = async (id: number, verb: string, args: readonly unknown[]): Promise<void> => {
    asked += 1
    try {
      const value = await serve(verb, args)
      if (id) push(value === undefined ? ['done', id, true] : ['done', id, true, value])
    } catch (error) {
      if (id) push(['done', id, false, faultOf(error)])
      else report(verb, isPermissionError(error) ? errorOf(faultOf(error)) : error)
    } finally {
      asked -= 1
    }
  }

  /** Everything here is a stranger's; what does not fit ends the cell. */
  const take = (text: string): void => {
    const batch = parseStrict(text)
    if (!Array.isArray(batch) || batch.length > batchLimit || !batch.every(isMessage))
      throw new Error('it said something that the bridge does not know')
    if (asked > owedLimit) throw new Error(`it asks for over ${owedLimit} things at once`)
    for (const message of batch) {
      if (gone !== undefined) return
      if (message[0] === 'do') {
        void perform(message[1], message[2], message[3])
        continue
      }
      const waiter = waiting.get(message[1])
      waiting.delete(message[1])
      if (message[2]) waiter?.resolve(message[3])
      else waiter?.reject(errorOf(message[3]))
    }
  }

  const push = (message: unknown): void => {
    if (gone !== undefined) return
    if (!carrier.hasRoom()) {
      report('the bridge', new Error('too much waits for it; something was dropped'))
      return
    }
    const text = JSON.stringify(message)
    if (text.length > textLimit)
      throw new Error(`${text.length} bytes are too much to cross at once; ${textLimit} are allowed`)
    carrier.send(text)
  }

  const carrier = connect({ take, fail, report, isSlow, isGone: () => gone !== undefined })
  return {
    end,
    open(given) {
      serve = given
      return carrier.open()
    },
    call: (target, args) =>
      new Promise((resolve, reject) => {
        if (gone !== undefined) return reject(new Error(`its ${name} has ended: ${gone}`))
        if (!carrier.hasRoom()) return reject(new Error('it is too busy: too much waits for it already'))
        if (waiting.size >= owedLimit) {
          reject(new Error('it owes too many answers'))
          fail(`it owes over ${owedLimit} answers`)
          return
        }
        lastId += 1
        push(['do', lastId, target, args])
        waiting.set(lastId, { resolve, reject })
      }),
    tell: (target, args) => push(['do', 0, target, args]),
    async close() {
      if (gone !== undefined) return
      end('it was switched off')
      await carrier.close().catch(() => {})
    },
    isGone: () => gone !== undefined,
    cpuMs: carrier.cpuMs,
    memoryBytes: carrier.memoryBytes,
    memoryLimitBytes: carrier.memoryLimitBytes,
  }
}

const faultOf = (error: unknown): z.output<typeof Fault> => ({
  message: messageOf(error),
  status: isHttpError(error) ? error.status : undefined,
  permission: isPermissionError(error) ? error.permission : undefined,
})

const errorOf = ({ message, stack, status, permission }: z.output<typeof Fault>): Error => {
  const text = message.slice(0, 2000)
  const error =
    permission !== undefined
      ? new PermissionError(permission, text)
      : status === undefined
        ? new Error(text)
        : new HttpError(status, text)
  error.stack = stack?.slice(0, 4000) ?? text
  return error
}
