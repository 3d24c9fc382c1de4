// Lines that a unit says, on its channel and on its standard streams: bounded, as many as are reasonable, nothing trusted.
import { z } from 'zod'

/** Characters of one line that are kept. */
const lengthLimit = 4096

/** Cuts a stream of text into lines; of a line that does not end the rest is dropped. */
export function createLineReader(take: (line: string) => void): (text: string) => void {
  let rest = ''
  return text => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!.slice(0, lengthLimit * 4)
    for (const line of lines) take(line.slice(0, lengthLimit * 4))
  }
}

const levels = ['ERROR', 'WARN', 'INFO', 'DEBUG'] as const
export type Level = (typeof levels)[number]
const Said = z.union([
  z.object({ level: z.enum(levels), msg: z.string() }),
  z.object({ plugin: z.string().max(64).nullable() }),
])
export type Said = z.output<typeof Said>

/** What a unit's program says on its channel; undefined: nothing that it can say. */
export function parseSaid(line: string): Said | undefined {
  try {
    return Said.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}

export interface Entry {
  readonly ts_ms: number
  readonly level: Level
  readonly source: string
  readonly msg: string
}

/** Without what a terminal would take for more than text. */
export const plainLine = (text: string): string =>
  text
    .slice(0, lengthLimit)
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trimEnd()

export interface Gate {
  /** Whether one more may pass now. */
  isOpen(): boolean
  /** Says now how many were kept back. */
  settle(): void
}
/** Lets so many lines a second of one source through, and says how many it has kept back. */
export function createGate(perSecond: number, nowMs: () => number, missed: (count: number) => void): Gate {
  let windowMs = nowMs()
  let count = 0
  const settle = (): void => {
    if (count > perSecond) missed(count - perSecond)
    windowMs = nowMs()
    count = 0
  }
  return {
    settle,
    isOpen() {
      if (nowMs() - windowMs >= 1000) settle()
      count += 1
      return count <= perSecond
    },
  }
}
