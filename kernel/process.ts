// Child processes that cannot outlive their owner: a marker in the environment, on disk before there is a process.
import { type StdioOptions, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Log, ManagedProcess, ProcessSpec } from 'svc-host/sdk'
import { withoutRights } from './confine.ts'
import { makeDurable } from './durable.ts'
import { messageOf } from './errors.ts'
import type { Journal } from './journal.ts'
import { jailed } from './realms/jail.ts'
import type { Effects } from './scope.ts'

const markerKey = 'SVC_EFFECT_MARKER'
const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()

interface ProcessRecord {
  readonly label: string
  readonly marker: string
  readonly bootId: string
  readonly graceMs: number
  pid?: number
  /** Clock ticks after boot; with pid and boot id it names one process for good. */
  startTime?: number
}

interface Seen {
  readonly pid: number
  readonly group: number
  readonly startTime: number
}

/** A process that is there and no zombie (which nobody can end and which harms nobody). */
async function look(pid: number): Promise<Seen | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (fields.length < 20 || fields[0] === 'Z' || fields[0] === 'X') return undefined
  return { pid, group: Number(fields[2]), startTime: Number(fields[19]) }
}

/** Everything that belongs to a record: what carries its marker, and what is in the group of its first process. */
async function membersOf(record: ProcessRecord): Promise<Seen[]> {
  if (record.bootId !== bootId()) return []
  const needle = `${markerKey}=${record.marker}`
  const leader = record.pid === undefined ? undefined : await look(record.pid)
  // A group keeps its number from being given away; once another process has it, the group is somebody else's.
  const isOurGroup = record.pid !== undefined && (!leader || leader.startTime === record.startTime)
  const members: Seen[] = []
  for (const name of await readdir('/proc')) {
    const seen = /^\d+$/.test(name) ? await look(Number(name)) : undefined
    if (!seen || seen.pid === process.pid) continue
    const inGroup = isOurGroup && seen.group === record.pid && seen.startTime >= (record.startTime ?? 0)
    const environment = inGroup ? '' : await readFile(`/proc/${name}/environ`, 'latin1').catch(() => '')
    if (inGroup || environment.split('\0').includes(needle)) members.push(seen)
  }
  return members
}

const isSame = async ({ pid, startTime }: Seen): Promise<boolean> =>
  (await look(pid))?.startTime === startTime

/** Ends all that is left of a process: asks first, then kills; whoever was born meanwhile too. */
export async function undoProcess(kept: unknown): Promise<void> {
  const record = kept as ProcessRecord
  for (let round = 0; round < 6; round++) {
    const members = await membersOf(record)
    if (members.length === 0) return
    for (const member of members) {
      if (!(await isSame(member))) continue
      try {
        process.kill(member.pid, round === 0 ? 'SIGTERM' : 'SIGKILL')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    }
    const until = performance.now() + (round === 0 ? record.graceMs : 500)
    while (performance.now() < until && (await Promise.all(members.map(isSame))).includes(true))
      await delay(20)
  }
  throw new Error(`process ${record.pid ?? ''} "${record.label}" does not end, not even when killed`)
}

/** Closes what this process was handed open beyond its standard streams, so that no child can ever have it. */
export function closeInherited(): void {
  for (const fd of readdirSync('/proc/self/fd').map(Number)) {
    const info = `/proc/self/fdinfo/${fd}`
    const flags = existsSync(info) ? /^flags:\s*(\d+)/m.exec(readFileSync(info, 'latin1'))?.[1] : undefined
    // What Node opens itself is closed on exec (02000000) anyway.
    if (fd > 2 && flags !== undefined && (Number.parseInt(flags, 8) & 0o2000000) === 0) closeSync(fd)
  }
}

/** Gives whole lines to the log, each cut to a sane length. */
function logLines(stream: Readable | null, label: string, log: Log): void {
  let rest = ''
  stream?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!.slice(-4096)
    for (const line of lines) log.debug(line.slice(0, 4096), { process: label })
  })
  stream?.on('end', () => rest && log.debug(rest, { process: label }))
}

async function confine(spec: ProcessSpec, configDir: string): Promise<[string, readonly string[]]> {
  const { jail } = spec
  if (!jail) return spec.unprivileged ? withoutRights(spec, configDir) : [spec.command, spec.args ?? []]
  const [command = '', ...args] = await jailed({ ...spec, jail })
  return [command, args]
}

/** At the exit Node drains what nobody reads yet; a stream of our own keeps it for whoever comes later. */
const kept = (stream: unknown): Readable => (stream as Readable).pipe(new PassThrough())

export async function startProcess(
  effects: Effects,
  { journal, configDir, log }: { journal: Journal; configDir: string; log: Log },
  label: string,
  spec: ProcessSpec,
): Promise<ManagedProcess> {
  const [command, args] = await confine(spec, configDir)
  const cwd = spec.jail ? '/' : (spec.cwd ?? '/')
  const marker = randomBytes(16).toString('hex')
  const record: ProcessRecord = { label, marker, bootId: bootId(), graceMs: spec.graceMs ?? 2000 }
  const isPiped = spec.output === 'pipe'
  const stdio: StdioOptions = [isPiped ? 'pipe' : 'ignore', 'pipe', 'pipe']
  stdio.push(...Array<'pipe'>(spec.pipes ?? 0).fill('pipe'))
  const env = {
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games',
    LANG: process.env['LANG'] ?? 'C.UTF-8',
    ...spec.env,
    [markerKey]: marker,
  }
  const change = async (amend: (more: object) => Promise<void>) => {
    const child = spawn(command, args, { env, cwd, stdio, detached: true })
    const exited = once(child, 'exit').then(
      ([code, signal]: (number | string | null)[]) => ({ code, signal }) as Awaited<ManagedProcess['exited']>,
      () => ({ code: null, signal: null }),
    )
    await once(child, 'spawn')
    for (const each of [child, ...child.stdio]) each?.on('error', () => {})
    if (!isPiped) for (const stream of [child.stdout, child.stderr]) logLines(stream, label, log)
    const [stdout, stderr] = isPiped ? [kept(child.stdout), kept(child.stderr)] : [null, null]
    const pipes = child.stdio.slice(3).map(kept)
    const pid = child.pid!
    const startTime = (await look(pid))?.startTime
    Object.assign(record, { pid, startTime })
    await amend({ pid, startTime })
    return { pid, exited, stdin: child.stdin, stdout, stderr, pipes }
  }
  try {
    const durable = { label: `process ${label}`, kind: 'process', record, undo: undoProcess, change }
    const { value, undo: stop } = await makeDurable(effects, journal, durable)
    // Gone by itself: the record goes too, unless it has left something behind that only the end of the scope may end.
    void value.exited.then(async () => (await membersOf(record)).length === 0 && stop()).catch(() => {})
    return { ...value, stop }
  } catch (error) {
    const what = `process "${label}" (${spec.command})`
    throw new Error(`${what} cannot be started: ${messageOf(error)}`, { cause: error })
  }
}
