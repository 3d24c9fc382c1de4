// Calls both ways over the bridge, as seen from inside: JSON in, JSON out, and functions as numbers.
import { HttpError, isHttpError, isPermissionError, PermissionError } from '../errors.ts'

/** `do`: call this (0: nobody waits for an answer). `done`: the answer to such a call. */
export type Message =
  | readonly ['do', id: number, target: string | number, args: readonly unknown[]]
  | readonly ['done', id: number, isGood: boolean, value?: unknown]

/** An error as it crosses. */
export interface Fault {
  readonly message: string
  readonly stack?: string | undefined
  /** Of a typed refusal. */
  readonly status?: number | undefined
  /** Of a refusal for want of a permission: which one. */
  readonly permission?: string | undefined
}

type Fn = (...args: never[]) => unknown

const out: string[] = []
interface Waiter {
  /** Made where the author's line made the call. */
  readonly at: Error
  resolve(value: unknown): void
  reject(error: Error): void
}
const waiting = new Map<number, Waiter>()
const handles = new Map<number, Fn>()
const named: Record<string, Fn> = {}
let lastId = 0
let lastHandle = 0

let wake = (): void => {}
/** Called whenever there is something to be said; an isolate is asked after each entry anyway. */
export const onOutput = (fn: () => void): void => {
  wake = fn
}

const post = (message: Message): void => {
  out.push(JSON.stringify(message))
  wake()
}

/** Tells the host; whatever it refuses shows in its log, and fails a setup under way. */
export const tell = (verb: string, ...args: unknown[]): void => post(['do', 0, verb, args])

/** Asks the host. */
export const ask = <T>(verb: string, ...args: unknown[]): Promise<T> => {
  lastId += 1
  post(['do', lastId, verb, args])
  const at = new Error()
  return new Promise<T>((resolve, reject) => {
    waiting.set(lastId, { at, resolve: resolve as (value: unknown) => void, reject })
  })
}

/** A number under which the host can call this function. */
export const handle = (fn: Fn): number => {
  lastHandle += 1
  handles.set(lastHandle, fn)
  return lastHandle
}
export const forget = (number: number): void => void handles.delete(number)

/** Makes a function known to the host by name. */
export const answerTo = (name: string, fn: Fn): void => {
  named[name] = fn
}

const placeOf = (frame: string): string | undefined =>
  /^ +at (?:.* \(|async )?(.+?):\d+:\d+\)?$/.exec(frame)?.[1]

/** Where the host's own part lies, as stacks have it; while a snapshot is made there are none. */
const ownPlace = (): string | undefined =>
  placeOf(String(new Error().stack).split('\n')[1] ?? '')?.replace(/realm\/wire\.[jt]s$/, '')

/** A stack without the frames that tell an author nothing. */
const authored = (stack: string): string => {
  const own = ownPlace()
  const isOwn = (frame: string): boolean => own !== undefined && placeOf(frame)?.startsWith(own) === true
  return stack
    .split('\n')
    .filter(frame => !isOwn(frame))
    .join('\n')
}

const faultOf = (error: unknown): Fault => {
  try {
    if (!(error instanceof Error)) return { message: String(error) }
    const status = isHttpError(error) ? error.status : undefined
    const permission = isPermissionError(error) ? error.permission : undefined
    return { message: String(error.message), stack: authored(String(error.stack)), status, permission }
  } catch {
    return { message: 'an error that cannot be read' }
  }
}

async function run(id: number, target: string | number, args: readonly unknown[]): Promise<void> {
  const fn = typeof target === 'number' ? handles.get(target) : named[target]
  if (id === 0) {
    await fn?.(...(args as never[]))
    return
  }
  try {
    if (!fn) throw new Error('what was called has gone')
    const value = await fn(...(args as never[]))
    post(value === undefined ? ['done', id, true] : ['done', id, true, value])
  } catch (error) {
    post(['done', id, false, faultOf(error)])
  }
}

/** Takes in what the host says: a list of messages. */
export function receive(text: string): void {
  for (const message of JSON.parse(text) as Message[]) {
    if (message[0] === 'do') {
      void run(message[1], message[2], message[3])
      continue
    }
    const [, id, isGood, value] = message
    const waiter = waiting.get(id)
    waiting.delete(id)
    if (isGood) waiter?.resolve(value)
    else if (waiter) waiter.reject(thrown(value as Fault, waiter.at))
  }
}

const thrown = ({ message, status, permission }: Fault, at: Error): Error => {
  const error =
    permission !== undefined
      ? new PermissionError(permission, message)
      : status === undefined
        ? new Error(message)
        : new HttpError(status, message)
  error.stack = `${error.name}: ${message}${authored(String(at.stack)).slice(String(at).length)}`
  return error
}

/** Gives what is to be said to the host since the last time. */
export const takeOut = (): string[] => out.splice(0)

/** Characters that leave an isolate at once, unless one message alone is longer. */
const roomLength = 256 * 1024

/** Likewise, as much as has room; the host is asked to come again for the rest. */
export function drain(): string {
  let length = 0
  const end = out.findIndex((message, at) => {
    length += message.length
    return at > 0 && length > roomLength
  })
  if (end < 0) return `[${takeOut().join(',')}]`
  return `[${out.splice(0, end).join(',')},["do",0,"more",[]]]`
}
