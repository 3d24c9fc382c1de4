// The journal of durable effects: what is about to be changed outside the process, on disk before the change.
import { type FileHandle, open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import type { Log } from 'svc-host/sdk'
import { z } from 'zod'
import { copyAside, readIfThere, writeDurably } from './documents.ts'
import { createTurns } from './turns.ts'

/** Struck-out lines after which the file is written anew. */
const compactAfter = 512

const Kept = z.object({
  id: z.number().int(),
  owner: z.string(),
  kind: z.string(),
  /** Module that takes the effect back; absent for the kernel's own kinds. */
  undoFile: z.string().optional(),
  /** Of an installed package: where it lies, and what it held. */
  installed: z.object({ folder: z.string(), seal: z.string().optional() }).optional(),
  record: z.record(z.string(), z.unknown()),
})
/** A durable effect that has not been taken back. */
export type Kept = z.output<typeof Kept>

const Line = z.discriminatedUnion('op', [
  Kept.extend({ op: z.literal('do') }),
  z.object({ op: z.literal('amend'), id: z.number().int(), record: z.record(z.string(), z.unknown()) }),
  z.object({ op: z.literal('done'), id: z.number().int() }),
])
type Line = z.output<typeof Line>

export interface Journal {
  /** Effects that are in force, oldest first; of one owner, or of all. */
  live(owner?: string): Kept[]
  /** Resolves once the record is on the disk. */
  begin(kept: Omit<Kept, 'id'>): Promise<number>
  /** Adds to a record; resolves once that is on the disk. */
  amend(id: number, record: object): Promise<void>
  /** The effect has been taken back. */
  strike(id: number): Promise<void>
  close(): Promise<void>
}

const checksum = (json: string): string => crc32(json).toString(16).padStart(8, '0')
const format = (line: Line): string => {
  const json = JSON.stringify(line)
  return `${checksum(json)} ${json}\n`
}

function parseLine(text: string): Line | undefined {
  const json = text.slice(9)
  if (text.slice(0, 9) !== `${checksum(json)} `) return undefined
  try {
    return Line.safeParse(JSON.parse(json)).data
  } catch {
    return undefined
  }
}

/** Reads a journal as far as it can be read: `torn`: its last line was cut off; `damaged`: numbers of other bad lines. */
export function parseJournal(text: string): {
  live: Kept[]
  lastId: number
  torn: boolean
  damaged: number[]
} {
  const live = new Map<number, Kept>()
  const damaged: number[] = []
  let lastId = 0
  const lines = text.split('\n')
  const tail = lines.pop()
  for (const [index, each] of lines.entries()) {
    if (each === '') continue
    const line = parseLine(each)
    if (!line) {
      damaged.push(index + 1)
      continue
    }
    lastId = Math.max(lastId, line.id)
    if (line.op === 'do') {
      const { op: _, ...kept } = line
      live.set(line.id, kept)
    } else if (line.op === 'amend') {
      const kept = live.get(line.id)
      if (kept) live.set(line.id, { ...kept, record: { ...kept.record, ...line.record } })
    } else {
      live.delete(line.id)
    }
  }
  return { live: [...live.values()], lastId, torn: tail !== '', damaged }
}

/** Opens the journal, rid of what is struck out; says what could not be read and keeps a damaged file aside. */
export async function openJournal(path: string, log: Log): Promise<Journal> {
  const read = parseJournal((await readIfThere(path)) ?? '')
  const live = new Map(read.live.map(kept => [kept.id, kept]))
  let lastId = read.lastId
  if (read.torn)
    log.warn(`the last line of ${path} was cut off while it was written; its change was never made`)
  if (read.damaged.length) {
    const lines = read.damaged.join(', ')
    const copy = await copyAside(path)
    log.warn(`${path} is damaged in line ${lines}: these effects are not undone; kept as ${copy}`)
  }

  let file: FileHandle
  let struck = 0
  let isTorn = false

  /** Atomic: a crash leaves either the old file or the new one. */
  const rewrite = async (): Promise<void> => {
    await writeDurably(path, [...live.values()].map(kept => format({ op: 'do', ...kept })).join(''))
    await file?.close()
    file = await open(path, 'a', 0o600)
    struck = 0
    isTorn = false
  }

  const inTurn = createTurns()
  const append = (line: Line): Promise<void> =>
    inTurn(async () => {
      try {
        // A line that failed half-way must not swallow the one after it.
        await file.appendFile(`${isTorn ? '\n' : ''}${format(line)}`)
        await file.datasync()
        isTorn = false
      } catch (error) {
        isTorn = true
        throw error
      }
    })

  await rewrite()
  return {
    live: owner => [...live.values()].filter(kept => kept.owner === (owner ?? kept.owner)),
    async begin(kept) {
      lastId += 1
      const entry = { ...kept, id: lastId }
      live.set(entry.id, entry)
      try {
        await append({ op: 'do', ...entry })
      } catch (error) {
        live.delete(entry.id)
        throw new Error('the journal cannot be written, so the change was not made', { cause: error })
      }
      return entry.id
    },
    async amend(id, record) {
      const kept = live.get(id)
      if (!kept) return
      live.set(id, { ...kept, record: { ...kept.record, ...record } })
      await append({ op: 'amend', id, record: record as Record<string, unknown> })
    },
    async strike(id) {
      if (!live.delete(id)) return
      await append({ op: 'done', id })
      struck += 1
      if (struck >= compactAfter) await inTurn(rewrite)
    },
    close: () => inTurn(() => file.close()),
  }
}
