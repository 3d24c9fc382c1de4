// The program of the process realm: one extension with Node around it, on the same bridge as an isolate. What the host
// says comes by stdin, what is said to it leaves by descriptor 3; stdout and stderr are the extension's own.
import { registerHooks } from 'node:module'
import { Socket } from 'node:net'
import { pathToFileURL } from 'node:url'
import { type ChildLoad, childLimitBytes, fromChild, toChild } from './child.ts'
import { createPacketReader, encodePacket } from './packets.ts'
import { boot, receive } from './runtime.ts'
import { onOutput, takeOut } from './wire.ts'

const root = new URL('../..', import.meta.url).href

// The SDK and zod are the host's own copies, wherever the package lies.
registerHooks({
  resolve(specifier, context, next) {
    const isShared = specifier === 'zod' || specifier.startsWith('zod/') || specifier.startsWith('svc-host/')
    const isStranger = !context.parentURL?.startsWith(root)
    return next(specifier, isShared && isStranger ? { ...context, parentURL: import.meta.url } : context)
  },
})

const out = new Socket({ fd: 3, readable: false })
out.on('error', () => process.exit(1))
const send = (kind: number, text = '', seq = 0): void =>
  void out.write(encodePacket({ kind, cell: 0, seq, amount: 0, text }))

/** Messages and characters of one packet, unless one message alone is longer. */
const batch = 256
const batchLength = 256 * 1024

let isWaiting = false
onOutput(() => {
  if (isWaiting) return
  isWaiting = true
  queueMicrotask(flush)
})
function flush(): void {
  isWaiting = false
  let some: string[] = []
  let length = 0
  const say = (): void => {
    if (some.length) send(fromChild.say, `[${some.join(',')}]`)
    some = []
    length = 0
  }
  for (const message of takeOut()) {
    if (some.length >= batch || length + message.length > batchLength) say()
    some.push(message)
    length += message.length
  }
  say()
}

const told = (error: unknown): string => {
  try {
    return String((error as Error)?.stack ?? error).slice(0, 4000)
  } catch {
    return 'an error that cannot be read'
  }
}
const stray = (error: unknown): void => send(fromChild.stray, told(error))
process.on('uncaughtException', stray)
process.on('unhandledRejection', stray)

async function load({ main, env }: ChildLoad): Promise<void> {
  try {
    Object.assign(process.env, env)
    const { default: extension } = await import(pathToFileURL(main).href)
    boot(extension)
    flush()
    send(fromChild.loaded)
  } catch (error) {
    send(fromChild.failed, told(error))
    out.end(() => process.exit(1))
  }
}

const read = createPacketReader(childLimitBytes)
process.stdin.on('data', bytes => {
  for (const { kind, seq, text } of read(bytes as Buffer)) {
    if (kind === toChild.say) receive(text)
    else if (kind === toChild.ping) send(fromChild.pong, '', seq)
    else void load(JSON.parse(text) as ChildLoad)
  }
})
process.stdin.on('end', () => process.exit(0))
