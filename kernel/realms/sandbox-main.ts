// The program inside a sandbox process: one isolate per extension, strings in and strings out, one request at a time.
// Everything that runs here was asked for by the host, in order, and each request gets exactly one answer; so the host
// always knows whose code is running. No function of this process is ever handed to an isolate.
import { readFileSync, readSync, writeFileSync, writeSync } from 'node:fs'
import ivm from 'isolated-vm'
import { createPacketReader, encodePacket, type Packet, packetLimitBytes } from '../../sdk/realm/packets.ts'
import { isStarved, type Load, requestKind, requestLimitBytes, verdict, waitedMsOf } from './requests.ts'

interface Room {
  readonly isolate: ivm.Isolate
  /** Collects all garbage of the isolate. */
  readonly collect: ivm.Reference<() => void>
  /** Whether it has run since it was last measured. */
  isBusy: boolean
  /** What it had in memory when it was last collected. */
  restingBytes: number
  readonly receive: ivm.Reference<(text: string) => void>
  readonly drain: ivm.Reference<() => string>
}

type Answer = readonly [kind: number, text: string]

/** An isolate at rest is collected when it has grown by so much, for so long in one go that nobody else notices. */
const slackBytes = 2 ** 20
const collectMs = 20
/** Time limits that end together: each one that ends later would wake a thread for it, long after what it limits. */
const togetherMs = 250
const staleMs = 50

const rooms = new Map<number, Room>()
let snapshot: ivm.ExternalCopy<ArrayBuffer> | undefined

/** What an isolate throws is a stranger's: its message may be a trap, or megabytes long. */
const said = (error: unknown): string => {
  try {
    return String((error as Error).message).slice(0, 2000)
  } catch {
    return 'an error that cannot be read'
  }
}

const reference = { reference: true } as const
/** The package must not have them. */
const takeOut = `const { gc, svcHostRuntime } = globalThis
delete globalThis.gc
delete globalThis.svcHostRuntime
return { ...svcHostRuntime, collect: () => gc({ type: 'major', flavor: 'last-resort' }) }`

function load({ memoryMb, modules, main }: Load, limitMs: number): Room {
  const options = { memoryLimit: memoryMb, snapshot, onCatastrophicError: () => process.abort() }
  const isolate = new ivm.Isolate(options as ivm.IsolateOptions)
  try {
    const context = isolate.createContextSync()
    const runtime = context.evalClosureSync(takeOut, [], { result: reference })
    const compiled = new Map<string, ivm.Module>()
    const keys = new Map<ivm.Module, string>()
    const compile = (key: string): ivm.Module => {
      const module = compiled.get(key) ?? isolate.compileModuleSync(modules[key]!.code, { filename: key })
      compiled.set(key, module)
      keys.set(module, key)
      return module
    }
    const module = compile(main)
    module.instantiateSync(context, (name, from) => {
      const target = modules[keys.get(from)!]!.imports[name]
      if (target === undefined)
        throw new Error(`${keys.get(from)} imports "${name}", which this realm does not have`)
      return compile(target)
    })
    module.evaluateSync({ timeout: limitMs })
    const extension = module.namespace.getSync('default', reference)
    runtime.getSync('boot', reference).applySync(undefined, [extension.derefInto()], { timeout: limitMs })
    return {
      isolate,
      collect: runtime.getSync('collect', reference),
      isBusy: true,
      restingBytes: 0,
      receive: runtime.getSync('receive', reference),
      drain: runtime.getSync('drain', reference),
    }
  } catch (error) {
    if (!isolate.isDisposed) isolate.dispose()
    throw error
  }
}

/** How long this thread has waited for a processor so far; read ahead of entries, but not for each of many. */
const waitedNow = (): { atMs: number; ms: number } => ({
  atMs: performance.now(),
  ms: waitedMsOf(readFileSync('/proc/self/schedstat', 'latin1')),
})
let waited = waitedNow()

const cut = 'Script execution timed out.'
function overran(limitMs: number, began: number): Answer {
  const { atMs, ms } = waitedNow()
  return isStarved(limitMs, atMs - began, ms - waited.ms)
    ? [verdict.starved, `the machine was too busy to let it run for its ${limitMs} ms`]
    : [verdict.dead, `it ran for over ${limitMs} ms at a stretch`]
}

/** Runs the isolate until nothing of it can go on, then fetches what it has to say. */
function enter(room: Room, text: string, limitMs: number): Answer {
  const { isolate, receive, drain } = room
  room.isBusy = true
  let stray: string | undefined
  const began = performance.now()
  try {
    const timeout = Math.ceil(limitMs + togetherMs - (began % togetherMs))
    receive.applySync(undefined, [text], { timeout })
  } catch (error) {
    if (isolate.isDisposed) return [verdict.dead, 'it used more memory than it may']
    stray = said(error)
    if (stray === cut) return overran(limitMs, began)
  }
  // Without a limit, which would wake one more thread for each call: whoever makes this hang is ended with the whole process.
  const out: unknown = drain.applySync(undefined, [])
  if (typeof out !== 'string' || out.length > packetLimitBytes / 3)
    return [verdict.dead, 'it sent more at once than may cross']
  return stray === undefined ? [verdict.done, out] : [verdict.threw, `${stray}\n${out}`]
}

const bytesOf = (isolate: ivm.Isolate): number => {
  const heap = isolate.getHeapStatisticsSync()
  return heap.total_physical_size + heap.externally_allocated_size
}

function measure(room: Room, mayCollect: boolean): number {
  if (room.isolate.isDisposed) return 0
  const bytes = bytesOf(room.isolate)
  const isResting = !room.isBusy
  room.isBusy = false
  if (!isResting || !mayCollect || bytes < room.restingBytes + slackBytes) return bytes
  room.collect.applySync(undefined, [])
  room.restingBytes = bytesOf(room.isolate)
  return room.restingBytes
}

function answer({ kind, cell, amount, text }: Packet): Answer {
  if (kind === requestKind.boot) {
    // Under this name stacks have the host's own part.
    const made: unknown = ivm.Isolate.createSnapshot([{ code: text, filename: 'svc-host/' }])
    snapshot = made as ivm.ExternalCopy<ArrayBuffer>
    return [verdict.done, '']
  }
  if (kind === requestKind.open) {
    rooms.set(cell, load(JSON.parse(text) as Load, amount))
    return [verdict.done, rooms.get(cell)!.drain.applySync(undefined, [], { timeout: amount })]
  }
  if (kind === requestKind.measure) {
    const began = performance.now()
    const heaps = [...rooms].map(([id, room]) => [id, measure(room, performance.now() - began < collectMs)])
    return [verdict.done, JSON.stringify({ heaps })]
  }
  const room = rooms.get(cell)
  if (!room) return [verdict.dead, 'its isolate is not there']
  if (kind === requestKind.enter) return enter(room, text, amount)
  rooms.delete(cell)
  if (!room.isolate.isDisposed) room.isolate.dispose()
  return [verdict.done, '']
}

function serve(packet: Packet): void {
  const cpuOf = (): bigint => rooms.get(packet.cell)?.isolate.cpuTime ?? 0n
  const before = cpuOf()
  let kind: number
  let text: string
  const began = performance.now()
  if (began - waited.atMs > staleMs) waited = waitedNow()
  try {
    ;[kind, text] = answer(packet)
  } catch (error) {
    const what = said(error)
    ;[kind, text] = what === cut ? overran(packet.amount, began) : [verdict.dead, what]
  }
  const room = rooms.get(packet.cell)
  const spent = room ? Number((cpuOf() - before) / 1000n) : 0
  if ((kind === verdict.dead || kind === verdict.starved) && room) {
    rooms.delete(packet.cell)
    if (!room.isolate.isDisposed) room.isolate.dispose()
  }
  const bytes = encodePacket({ kind, cell: packet.cell, seq: packet.seq, amount: spent, text })
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
}

// If memory runs out, then here first.
writeFileSync('/proc/self/oom_score_adj', '1000')
const read = createPacketReader(requestLimitBytes)
const chunk = Buffer.allocUnsafe(256 * 1024)
for (;;) {
  const length = readSync(0, chunk)
  if (length === 0) process.exit(0)
  // A copy: the reader keeps what is not yet whole.
  for (const packet of read(Uint8Array.prototype.slice.call(chunk, 0, length))) serve(packet)
}
