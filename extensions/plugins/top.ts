// `svc-host plugins top`: what each extension uses and how it fares, looked at once a second.
import { setTimeout as delay } from 'node:timers/promises'
import { type Colour, paint, plain } from 'svc-host/api/ctl'
import type { ExtensionRecord } from 'svc-host/sdk'
import { stateColours } from './report.ts'

const minuteMs = 60_000

/** All extensions at one moment. */
export interface Sample {
  readonly atUnixMs: number
  readonly records: readonly ExtensionRecord[]
}

export interface TopRow {
  readonly id: string
  readonly state: ExtensionRecord['state']
  readonly why: string | null
  readonly restarts: number
  /** In the last minute, or since the first look. */
  readonly errors_per_minute: number
  /** Of one core; null: it runs in the host's own process. */
  readonly cpu_percent: number | null
  readonly memory_bytes: number | null
  readonly hook_calls: number
  /** Of its slowest tap. */
  readonly p50_ms: number | null
  readonly p99_ms: number | null
  /** `over`: it is slowed down; `spent`: quarantined; `-`: it has none, since it runs in the host's own process. */
  readonly budget: string
}

const keys = ['cpu', 'memory', 'errors', 'calls', 'id'] as const
export type SortKey = (typeof keys)[number]
const weightOf: Readonly<Record<SortKey, (row: TopRow) => number>> = {
  cpu: row => row.cpu_percent ?? -1,
  memory: row => row.memory_bytes ?? -1,
  errors: row => row.errors_per_minute,
  calls: row => row.hook_calls,
  id: () => 0,
}
export const nextKey = (key: SortKey): SortKey => keys[(keys.indexOf(key) + 1) % keys.length]!

const most = (values: readonly (number | null)[]): number | null =>
  values.reduce<number | null>((max, each) => (each === null ? max : Math.max(max ?? 0, each)), null)

/** The newest sample as rows; what is a rate is told from those before it, oldest first. */
export function rowsOf(samples: readonly Sample[], key: SortKey): TopRow[] {
  const now = samples.at(-1)!
  const first = samples.find(({ atUnixMs }) => now.atUnixMs - atUnixMs <= minuteMs)!
  const before = samples.at(-2)
  const recordIn = (sample: Sample | undefined, id: string): ExtensionRecord | undefined =>
    sample?.records.find(record => record.id === id)
  const rows = now.records.map((record): TopRow => {
    const { id, state, why, restarts, errors, cpu_ms, memory_bytes, taps } = record
    const spent = recordIn(before, id)?.cpu_ms
    // A clock that was set back, or a host that began anew, makes no negative time.
    const isTold = before && cpu_ms !== null && typeof spent === 'number' && now.atUnixMs > before.atUnixMs
    const percent = isTold ? (Math.max(0, cpu_ms - spent) * 100) / (now.atUnixMs - before.atUnixMs) : 0
    return {
      id,
      state,
      why,
      restarts,
      errors_per_minute: Math.max(0, errors - (recordIn(first, id)?.errors ?? 0)),
      cpu_percent: cpu_ms === null ? null : Math.round(percent * 10) / 10,
      memory_bytes,
      hook_calls: taps.reduce((sum, { calls }) => sum + calls, 0),
      p50_ms: most(taps.map(({ p50_ms }) => p50_ms)),
      p99_ms: most(taps.map(({ p99_ms }) => p99_ms)),
      budget: budgetOf(record),
    }
  })
  const weight = weightOf[key]
  return rows.sort((a, b) => weight(b) - weight(a) || (a.id < b.id ? -1 : 1))
}

const budgetOf = ({ state, budget }: ExtensionRecord): string =>
  state === 'quarantined' ? 'spent' : budget === 'slowed' ? 'over' : (budget ?? '-')

const bytes = (count: number | null): string =>
  count === null ? '-' : count < 1e7 ? `${Math.round(count / 1e3)}k` : `${Math.round(count / 1e6)}M`
const ms = (value: number | null): string =>
  value === null
    ? '-'
    : value < 10
      ? value.toFixed(2)
      : value < 1000
        ? value.toFixed(0)
        : `${(value / 1000).toFixed(1)}s`
const count = (value: number): string =>
  value < 1e5 ? `${value}` : value < 1e7 ? `${Math.round(value / 1e3)}k` : `${Math.round(value / 1e6)}M`

/** Heads with their widths; a negative one is set to the right. The id takes what is left. */
const columns: readonly (readonly [head: string, width: number, text: (row: TopRow) => string])[] = [
  ['STATE', 11, ({ state }) => state],
  ['RST', -3, ({ restarts }) => count(restarts)],
  ['ERR/M', -5, row => count(row.errors_per_minute)],
  ['CPU%', -5, row => (row.cpu_percent === null ? '-' : row.cpu_percent.toFixed(1))],
  ['MEM', -5, row => bytes(row.memory_bytes)],
  ['CALLS', -6, row => count(row.hook_calls)],
  ['P50ms', -5, row => ms(row.p50_ms)],
  ['P99ms', -5, row => ms(row.p99_ms)],
  ['BUDGET', 6, ({ budget }) => budget],
]
const rest = columns.reduce((sum, [, width]) => sum + Math.abs(width) + 1, 0)

const sized = (text: string, width: number): string => {
  const room = Math.abs(width)
  const cut = text.length > room ? `${text.slice(0, room - 1)}…` : text
  return width < 0 ? cut.padStart(room) : cut.padEnd(room)
}

export interface Frame {
  readonly key: SortKey
  /** Of the terminal; without a height everything is shown. */
  readonly width: number
  readonly height?: number
  /** What went wrong with the last look. */
  readonly trouble?: string | undefined
  /** True: the keys are named. */
  readonly isLive: boolean
}

/** One picture; `colour` paints what stands out. */
export function picture(
  rows: readonly TopRow[],
  { key, width, height = Number.POSITIVE_INFINITY, trouble, isLive }: Frame,
  colour: (colour: Colour, text: string) => string,
): string[] {
  const idWidth = Math.min(40, Math.max(12, width - rest))
  const on = rows.filter(({ state }) => state === 'on').length
  const spare = Math.max(0, height - 3)
  const reasons = rows.filter(({ state }) => state === 'failed' || state === 'quarantined')
  const told = reasons.slice(0, Math.max(0, Math.min(3, spare - 2)))
  const shown = rows.slice(0, Math.max(1, spare - (told.length ? told.length + 1 : 0)))
  const more = rows.length > shown.length ? `, ${rows.length - shown.length} not shown` : ''
  const hint = isLive ? '   q: quit, s: sort' : ''
  const title = trouble ?? `${on} of ${rows.length} on, sorted by ${key}${more}${hint}`
  const head = ['ID'.padEnd(idWidth), ...columns.map(([name, size]) => sized(name, size))].join(' ')
  const line = (row: TopRow): string => {
    const texts = columns.map(([, size, text]) => sized(plain(text(row)), size))
    const state = stateColours[row.state]
    const painted = texts.map((text, at) => (at === 0 && row.state !== 'on' ? colour(state, text) : text))
    return [sized(plain(row.id), idWidth), ...painted].join(' ').trimEnd()
  }
  return [
    trouble === undefined
      ? sized(title, width).trimEnd()
      : colour('red', sized(plain(title), width).trimEnd()),
    colour('dim', head.slice(0, width)),
    ...shown.map(line),
    ...(told.length
      ? ['', ...told.map(({ id, state, why }) => sized(plain(`${id} is ${state}: ${why}`), width).trimEnd())]
      : []),
  ]
}

export interface Looking {
  /** Reads the records; rejects when the host does not answer. */
  look(): Promise<readonly ExtensionRecord[]>
  readonly intervalMs: number
  readonly signal: AbortSignal
  /** Shows; `trouble` says what went wrong with the last look, and then the rows are those before it. */
  show(samples: readonly Sample[], trouble: string | undefined): void
}

/** Looks until `signal` is aborted; the first look must succeed. */
export async function watchTop({ look, intervalMs, signal, show }: Looking): Promise<void> {
  const samples: Sample[] = []
  const take = async (): Promise<void> => {
    const records = await look()
    const atUnixMs = Date.now()
    samples.push({ atUnixMs, records })
    while (samples.length > 2 && atUnixMs - samples[0]!.atUnixMs > minuteMs) samples.shift()
  }
  await take()
  show(samples, undefined)
  while (!signal.aborted) {
    await delay(intervalMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const trouble = await take().then(
      () => undefined,
      (error: Error) => error.message,
    )
    show(samples, trouble)
  }
}

/** Whole-screen pictures on a terminal; returns the way back to what was there before. */
export function openScreen(out: NodeJS.WritableStream): {
  draw(lines: readonly string[]): void
  close(): void
} {
  // Another screen, no cursor, and lines that are too long are cut.
  out.write('\u001b[?1049h\u001b[?25l\u001b[?7l')
  return {
    draw: lines => out.write(`\u001b[H${lines.map(line => `\u001b[K${line}`).join('\r\n')}\u001b[J`),
    close: () => out.write('\u001b[?7h\u001b[?25h\u001b[?1049l'),
  }
}

export const painted =
  (out: NodeJS.WritableStream) =>
  (colour: Colour, text: string): string =>
    paint(out, colour, text)
