// A sandbox process as the host sees it: requests in order, one answer each, and an end as soon as that is not so.
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log, ManagedProcess, ProcessSpec } from 'svc-host/sdk'
import { z } from 'zod'
import { createPacketReader, encodePacket, type Packet, parseStrict } from '../../sdk/realm/packets.ts'
import { messageOf } from '../errors.ts'
import { jailed } from './jail.ts'
import { readBundle } from './modules.ts'
import { requestKind, verdict, waitedMsOf } from './requests.ts'

const verdicts: readonly number[] = Object.values(verdict)
/** Beyond the time limit of what runs: for ending it, and for a busy machine. */
const graceMs = 1000
const bootLimitMs = 30_000
const heartbeatMs = 1000
const measureLimitMs = 2000
/** All that one process may have in memory. Limits of the kernel's own do not fit: V8 reserves far more than it uses. */
const memoryMb = 1024
const lookMs = 50

/** Why a process has ended; `culprit`: the cell whose code was running. */
export interface Ended {
  readonly why: string
  readonly culprit?: number
}

export interface Sandbox {
  /** Sends one request and resolves to its answer; rejects when the process ends before. */
  request(kind: number, cell: number, text: string, limitMs: number): Promise<Packet>
  readonly ended: Promise<Ended>
  readonly hasEnded: boolean
  /** Memory by cell in bytes, as of the last heartbeat. */
  memoryOf(cell: number): number
  end(why: string): void
}

interface Asked {
  readonly cell: number
  readonly kind: number
  readonly seq: number
  readonly limitMs: number
  resolve(packet: Packet): void
  reject(error: Error): void
}

/** An isolate is small: more threads that collect its garbage cost more than they give, and code that ran once is garbage too. */
const flags = '--no-node-snapshot --single-threaded-gc --bytecode-old-age=1 --expose-gc --no-warnings'.split(
  ' ',
)

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'

/** The program and what it needs, and nothing else, under a root of its own. */
async function makeCommandLine(): Promise<string[]> {
  const packageOf = (name: string, from: string): string =>
    dirname(createRequire(from).resolve(`${name}/package.json`))
  const ivm = packageOf('isolated-vm', import.meta.url)
  const loader = packageOf('node-gyp-build', `${ivm}/package.json`)
  const own = [
    `kernel/realms/sandbox-main.${extension}`,
    `kernel/realms/requests.${extension}`,
    `sdk/realm/packets.${extension}`,
  ]
  const { platform, arch } = process
  const node = process.execPath
  const jail = {
    programs: [node, ...(await nativePartsOf(`${ivm}/prebuilds/${platform}-${arch}`))],
    mounts: [
      [ivm, '/realm/node_modules/isolated-vm'],
      [loader, '/realm/node_modules/node-gyp-build'],
      ...own.map(file => [here(`../../${file}`), `/realm/${file}`]),
    ] as [string, string][],
  }
  return jailed({
    jail,
    command: node,
    args: [...flags, `/realm/${own[0]}`],
  })
}

async function nativePartsOf(folder: string): Promise<string[]> {
  const names = await readdir(folder)
  return names
    .filter(name => name.includes(`abi${process.versions.modules}.glibc`))
    .map(name => `${folder}/${name}`)
}

/** The process behind its walls: the last of the chain that begins with this one. */
async function innermost(pid: number): Promise<number> {
  const [child] = (await readFile(`/proc/${pid}/task/${pid}/children`, 'latin1').catch(() => '')).split(' ')
  return child ? innermost(Number(child)) : pid
}

/** At once: for a few microseconds the pool's threads are not woken, twenty times a second. */
function readNow(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
const residentBytes = (pid: number): number => Number(readNow(`/proc/${pid}/statm`).split(' ')[1] ?? 0) * 4096

let made: Promise<string[]> | undefined
/** Worked out once; what fails is tried again. */
const commandLine = (): Promise<string[]> => {
  made ??= makeCommandLine()
  made.catch(() => {
    made = undefined
  })
  return made
}

const Measured = z.object({ heaps: z.array(z.tuple([z.number(), z.number()])) })

export type StartProcess = (label: string, spec: ProcessSpec) => Promise<ManagedProcess>

/** Starts a process that is ready for isolates; rejects with a sentence where that cannot be. */
export async function startSandbox(start: StartProcess, label: string, log: Log): Promise<Sandbox> {
  const [command = '', ...args] = await commandLine()
  const child = await start(label, { command, args, output: 'pipe', graceMs: 0 })
  const ended = Promise.withResolvers<Ended>()
  const asked: Asked[] = []
  let memory = new Map<number, number>()
  let end: Ended | undefined
  let seq = 0
  let watch: NodeJS.Timeout | undefined
  let lastWords = ''
  let inner = child.pid

  const finish = (why: string, culprit?: number): void => {
    if (end) return
    end = { why, ...(culprit !== undefined && { culprit }) }
    clearInterval(watch)
    clearInterval(heart)
    void child.stop().catch(error => log.error(messageOf(error)))
    for (const each of asked.splice(0)) each.reject(new Error(`its sandbox has ended: ${why}`))
    ended.resolve(end)
  }
  /** Answers come in order, so that the first request is the one that runs, since the answer before. */
  let since = 0
  let waited: { since: number; ms: number } | undefined
  const look = (): void => {
    const [first] = asked
    if (!first || end) {
      clearInterval(watch)
      watch = undefined
      return
    }
    const limitMs = first.limitMs + graceMs
    // What it was kept waiting for a processor is not held against it.
    const waitedMs = waitedMsOf(readNow(`/proc/${inner}/schedstat`))
    if (waited?.since !== since) waited = { since, ms: waitedMs }
    const isLate = performance.now() - since - (waitedMs - waited.ms) > limitMs
    if (isLate) finish(`did not answer for ${limitMs} ms`, culpritOf(first))
    else if (residentBytes(inner) > memoryMb * 2 ** 20)
      finish(`took over ${memoryMb} MB of memory`, culpritOf(first))
  }
  const watchFirst = (): void => {
    since = performance.now()
    watch ??= setInterval(look, lookMs)
  }
  const culpritOf = (first: Asked | undefined): number | undefined => first?.cell || undefined

  const read = createPacketReader()
  const take = (packet: Packet): void => {
    const first = asked.shift()
    const isKnown = verdicts.includes(packet.kind)
    if (!first || packet.seq !== first.seq || packet.cell !== first.cell || !isKnown) {
      if (first) asked.unshift(first)
      finish('gave an answer that nobody had asked for', culpritOf(first))
      return
    }
    first.resolve(packet)
  }
  child.stdout!.on('data', (bytes: Buffer) => {
    if (end) return
    try {
      for (const packet of read(bytes)) if (!end) take(packet)
      if (!end) watchFirst()
    } catch (error) {
      finish(messageOf(error), culpritOf(asked[0]))
    }
  })
  child.stderr!.on('data', (bytes: Buffer) => (lastWords = (lastWords + bytes.toString('utf8')).slice(-2000)))
  child.stdin!.on('error', () => {})
  void child.exited.then(({ code, signal }) => {
    const said = lastWords.trim().split('\n').slice(-12).join(' | ')
    finish(`ended with ${signal ?? code}${said && `: ${said}`}`, culpritOf(asked[0]))
  })

  const request: Sandbox['request'] = (kind, cell, text, limitMs) =>
    new Promise((resolve, reject) => {
      if (end) return reject(new Error(`its sandbox has ended: ${end.why}`))
      seq = (seq + 1) >>> 0
      asked.push({ cell, kind, seq, limitMs, resolve, reject })
      if (asked.length === 1) watchFirst()
      child.stdin!.write(encodePacket({ kind, cell, seq, amount: limitMs, text }))
    })

  const measure = async (): Promise<void> => {
    if (asked.length) return
    const { text } = await request(requestKind.measure, 0, '', measureLimitMs)
    memory = new Map(Measured.parse(parseStrict(text)).heaps)
  }
  const heart = setInterval(() => void measure().catch(error => finish(messageOf(error))), heartbeatMs)
  heart.unref()

  try {
    await request(requestKind.boot, 0, (await readBundle()).script, bootLimitMs)
    inner = await innermost(child.pid)
  } catch (error) {
    finish(messageOf(error))
    throw new Error(`no sandbox can be started: ${messageOf(error)}`, { cause: error })
  }
  return {
    request,
    ended: ended.promise,
    get hasEnded() {
      return end !== undefined
    },
    memoryOf: cell => memory.get(cell) ?? 0,
    end: finish,
  }
}
