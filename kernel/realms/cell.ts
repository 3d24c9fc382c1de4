// One extension in a sandbox: calls both ways as messages, one entry at a time, and no more than its share of the host.

import { HttpError } from 'svc-host/sdk'
import { z } from 'zod'
import { parseStrict } from '../../sdk/realm/packets.ts'
import { messageOf } from '../errors.ts'
import { type Load, requestKind, verdict } from './requests.ts'
import type { Sandbox } from './sandbox.ts'

/** How long its code may run at a stretch, and while its modules are evaluated. */
const entryLimitMs = 500
const loadLimitMs = 2000
/** What may wait for it, and what may come from it in one entry. */
const queueLimit = 1024
const batchLimit = 1024
/** Answers that it may owe. */
const owedLimit = 4096
/** Characters of one message to it. */
const textLimit = 4 * 1024 * 1024
/** Part of the time that it may keep the sandbox or the host busy, and how much it may borrow. */
const share = 0.25
const creditMs = 500

const Fault = z.object({
  message: z.string(),
  stack: z.string().optional(),
  status: z.int().min(400).max(599).optional(),
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
  open(load: Load, serve: Serve): Promise<void>
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
}

export interface CellOptions {
  readonly sandbox: Sandbox
  readonly number: number
  /** Told of errors that nobody in the extension caught, and of requests that were refused. */
  report(during: string, error: unknown): void
  /** Told when its isolate has gone, or it has broken the rules of the bridge, with the reason. */
  lost(why: string): void
}

export function createCell({ sandbox, number, report, lost }: CellOptions): Cell {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let queue: string[] = []
  let serve: Serve = () => undefined
  let isEntered = false
  let lastId = 0
  let gone: string | undefined
  let cpuUs = 0
  /** Time owed in milliseconds, as of `owedAt`. */
  let owed = 0
  let owedAt = performance.now()

  const end = (why: string): void => {
    if (gone !== undefined) return
    gone = why
    queue = []
    for (const { reject } of waiting.values()) reject(new Error(`its isolate has ended: ${why}`))
    waiting.clear()
  }
  const fail = (why: string): void => {
    if (gone !== undefined) return
    end(why)
    void sandbox.request(requestKind.close, number, '', entryLimitMs).catch(() => {})
    lost(why)
  }

  const charge = (ms: number): void => {
    const now = performance.now()
    owed = Math.max(0, owed - (now - owedAt) * share) + ms
    owedAt = now
  }

  const perform = async (id: number, verb: string, args: readonly unknown[]): Promise<void> => {
    try {
      const value = await serve(verb, args)
      if (id) push(value === undefined ? ['done', id, true] : ['done', id, true, value])
    } catch (error) {
      if (id) push(['done', id, false, { message: messageOf(error), status: (error as HttpError)?.status }])
      else report(verb, error)
    }
  }

  /** Everything here is a stranger's; what does not fit ends the cell. */
  const take = (text: string): void => {
    const batch = parseStrict(text)
    if (!Array.isArray(batch) || batch.length > batchLimit || !batch.every(isMessage))
      throw new Error('it said something that the bridge does not know')
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

  const answered = (kind: number, amount: number, text: string): void => {
    cpuUs += amount
    if (kind === verdict.dead) {
      fail(text)
      return
    }
    const began = performance.now()
    try {
      const isStray = kind === verdict.threw
      const at = isStray ? text.lastIndexOf('\n') : -1
      if (isStray) report('an error that nobody caught', new Error(text.slice(0, at)))
      take(text.slice(at + 1))
    } catch (error) {
      fail(messageOf(error))
    }
    charge(amount / 1000 + performance.now() - began)
  }

  const pump = async (): Promise<void> => {
    if (isEntered || gone !== undefined || queue.length === 0) return
    isEntered = true
    charge(0)
    if (owed > creditMs) await new Promise(done => setTimeout(done, (owed - creditMs) / share))
    const text = `[${queue.splice(0).join(',')}]`
    try {
      const {
        kind,
        amount,
        text: said,
      } = await sandbox.request(requestKind.enter, number, text, entryLimitMs)
      isEntered = false
      if (gone === undefined) answered(kind, amount, said)
    } catch {
      // The process has ended; whoever keeps it says so.
      return
    }
    void pump()
  }
  const push = (message: unknown): void => {
    if (gone !== undefined) return
    if (queue.length >= queueLimit) {
      report('the bridge', new Error('too much waits for it; something was dropped'))
      return
    }
    const text = JSON.stringify(message)
    if (text.length > textLimit)
      throw new Error(`${text.length} bytes are too much to cross at once; ${textLimit} are allowed`)
    queue.push(text)
    void pump()
  }

  return {
    end,
    async open(load, given) {
      serve = given
      const { kind, amount, text } = await sandbox.request(
        requestKind.open,
        number,
        JSON.stringify(load),
        loadLimitMs,
      )
      if (kind === verdict.dead) throw new Error(text)
      answered(kind, amount, text)
    },
    call: (target, args) =>
      new Promise((resolve, reject) => {
        if (gone !== undefined) return reject(new Error(`its isolate has ended: ${gone}`))
        if (queue.length >= queueLimit)
          return reject(new Error('it is too busy: too much waits for it already'))
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
      if (gone === undefined) {
        end('it was switched off')
        await sandbox.request(requestKind.close, number, '', entryLimitMs).catch(() => {})
      }
    },
    isGone: () => gone !== undefined,
    cpuMs: () => Math.round(cpuUs / 1000),
    memoryBytes: () => sandbox.memoryOf(number),
  }
}

const errorOf = ({ message, stack, status }: z.output<typeof Fault>): Error => {
  const text = message.slice(0, 2000)
  if (status !== undefined) return new HttpError(status, text)
  const error = new Error(text)
  error.stack = stack?.slice(0, 4000) ?? text
  return error
}
