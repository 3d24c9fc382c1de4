// What the benchmarks measure with: CPU time of processes, medians, tables.
import { readFileSync } from 'node:fs'

const ticksPerSecond = 100 // USER_HZ is 100 on every Linux that Node runs on

/** CPU time used by one process so far, its threads included, in milliseconds (proc_pid_stat(5), fields 14 and 15). */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond
}

/** CLOCK_MONOTONIC in microseconds, as every program of the benchmarks tells time. */
export const monotonicUs = () => Number(process.hrtime.bigint() / 1000n)

/** Resident memory in MiB. */
export const residentMiB = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+) kB/m)?.[1] ?? 0) / 1024

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

/** The value that `share` of all values do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** What the project holds itself to, and what was measured: both in the same unit. */
export interface Target {
  readonly what: string
  readonly measured: number
  readonly atMost: number
}

export const isMet = ({ measured, atMost }: Target): boolean => measured <= atMost

/** Rows as a table with aligned columns; the first row is the head. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => (row[column] ?? '').length)))
  return rows
    .map(row =>
      row
        .map((cell, column) =>
          column ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
        )
        .join('  '),
    )
    .join('\n')
}
