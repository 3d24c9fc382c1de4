// The way to an extension in a process of its own: packets stream both ways, and whoever floods, hangs or grows without end is ended.
import type { Readable } from 'node:stream'
import type { GuestProcess, Log } from 'svc-host/sdk'
import { fromChild, toChild } from '../../sdk/realm/child.ts'
import { createPacketReader, encodePacket, type Packet } from '../../sdk/realm/packets.ts'
import { messageOf, within } from '../errors.ts'
import type { Carrier, Hands } from './cell.ts'
import { createFlow } from './flow.ts'
import { createShare } from './share.ts'
import { usageOf } from './tree.ts'

/** From the start of the process until its module is loaded, on a busy machine. */
const loadLimitMs = 25_000
/** How often it is asked for a sign of life, and how much CPU time or time it may let pass before it gives one. */
const pingMs = 1000
const busyLimitMs = 3000
const silenceLimitMs = 30_000
/** What may wait for it. */
const waitingBytes = 8 * 1024 * 1024
/** All that it and its children may have in memory, and how often that is looked at. */
const memoryMb = 512
const lookMs = 250
/** How long it gets to end by itself. */
const farewellMs = 500
const straysPerSecond = 10
const linesPerSecond = 100
const lineLength = 4096
const chunksPerSecond = 64

/** What it prints, as lines of its log. */
function logLines(stream: Readable | null, log: (line: string) => void, mayLog: () => boolean): void {
  const mayCome = createFlow(chunksPerSecond, () => {})
  let rest = ''
  stream?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!.slice(-lineLength)
    let isTooMuch = !mayCome()
    for (const line of lines.filter(Boolean))
      if (mayLog()) log(line.slice(0, lineLength))
      else isTooMuch = true
    if (!isTooMuch) return
    // Whoever prints more has to wait until it is read.
    stream.pause()
    setTimeout(() => stream.resume(), 1000)
  })
}

export function createChannel(child: GuestProcess, log: Log, hands: Hands): Carrier {
  const { pid, stdin, stdout, stderr, pipes, exited } = child.process
  const [output] = pipes
  const share = createShare(hands.isSlow)
  const loaded = Promise.withResolvers<void>()
  loaded.promise.catch(() => {})
  let isLoaded = false
  let isEnding = false
  let asked: { readonly atMs: number; readonly cpuMs: number } | undefined
  let seq = 0
  let usage = { cpuMs: 0, memoryBytes: 0 }
  const mayReport = createFlow(straysPerSecond, () => {})

  const send = (kind: number, text = ''): void => {
    if (!stdin?.writable) return
    stdin.cork()
    stdin.write(encodePacket({ kind, cell: 0, seq, amount: 0, text }))
    process.nextTick(() => stdin.uncork())
  }
  const stop = (why: string): void => {
    if (isEnding) return
    isEnding = true
    clearInterval(heart)
    clearInterval(watch)
    // At once: it may be growing.
    void child.stop().catch(error => hands.report('its end', error))
    loaded.reject(new Error(why))
    hands.fail(why)
  }
  const take = ({ kind, seq: answered, text }: Packet): void => {
    if (kind === fromChild.say) hands.take(text)
    else if (kind === fromChild.pong && answered === seq) asked = undefined
    else if (kind === fromChild.stray) {
      if (mayReport()) hands.report('an error that nobody caught', new Error(text.slice(0, 4000)))
    } else if (kind === fromChild.failed && !isLoaded) stop(text.slice(0, 4000))
    else if (kind === fromChild.loaded && !isLoaded) {
      isLoaded = true
      loaded.resolve()
    } else throw new Error('it said something that the bridge does not know')
  }
  const read = createPacketReader()
  output!.on('data', (bytes: Buffer) => {
    if (hands.isGone()) return
    const began = performance.now()
    try {
      for (const packet of read(bytes)) if (!hands.isGone()) take(packet)
    } catch (error) {
      stop(messageOf(error))
    }
    share.charge(performance.now() - began)
    const debtMs = share.debtMs()
    if (debtMs <= 0) return
    output!.pause()
    setTimeout(() => output!.resume(), debtMs)
  })
  const mayLog = createFlow(linesPerSecond, count => log.warn(`${count} more lines of it were not logged`))
  logLines(stdout, log.info, mayLog)
  logLines(stderr, log.warn, mayLog)
  let lastWords = ''
  stderr?.on('data', text => {
    lastWords = (lastWords + text).slice(-2000)
  })

  const heart = setInterval(() => {
    if (asked) {
      if (usage.cpuMs - asked.cpuMs > busyLimitMs) stop(`ran for over ${busyLimitMs} ms at a stretch`)
      else if (performance.now() - asked.atMs > silenceLimitMs)
        stop(`did not answer for ${silenceLimitMs} ms`)
    } else if (isLoaded) {
      seq = (seq + 1) >>> 0
      asked = { atMs: performance.now(), cpuMs: usage.cpuMs }
      send(toChild.ping)
    }
  }, pingMs)
  let isLooking = false
  const look = async (): Promise<void> => {
    if (isLooking) return
    isLooking = true
    const now = await usageOf(pid)
    isLooking = false
    // Of those that have ended nobody tells any more.
    usage = { cpuMs: Math.max(usage.cpuMs, now.cpuMs), memoryBytes: now.memoryBytes }
    if (now.memoryBytes > memoryMb * 2 ** 20) stop(`took over ${memoryMb} MB of memory`)
  }
  const watch = setInterval(() => void look(), lookMs)
  for (const timer of [heart, watch]) timer.unref()
  void exited.then(({ code, signal }) => {
    const said = lastWords.trim().split('\n').slice(-12).join(' | ')
    stop(`ended with ${signal ?? code}${said && `: ${said}`}`)
  })

  return {
    async open() {
      const load = { main: child.main, env: child.env }
      send(toChild.open, JSON.stringify(load))
      await within(loadLimitMs, loaded.promise)
    },
    hasRoom: () => (stdin?.writableLength ?? 0) < waitingBytes,
    send: message => send(toChild.say, `[${message}]`),
    async close() {
      if (!isEnding) {
        isEnding = true
        clearInterval(heart)
        clearInterval(watch)
        stdin?.end()
        await within(farewellMs, exited).catch(() => {})
      }
      await child.stop()
    },
    cpuMs: () => usage.cpuMs,
    memoryBytes: () => usage.memoryBytes,
    memoryLimitBytes: memoryMb * 2 ** 20,
  }
}
