// What the benchmarks measure with: CPU time of processes, medians, tables.
import { readdirSync, readFileSync } from 'node:fs'

/**
 * CPU time used so far by the threads that a process has now, in milliseconds, to the microsecond: /proc/PID/stat counts
 * in steps of 10 ms, which is more than a still screen takes in a second.
 */
export function cpuMs(pid: number): number {
  let ns = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
    } catch {} // it has gone meanwhile
  }
  return ns / 1e6
}

/** CLOCK_MONOTONIC in microseconds, as every program of the benchmarks tells time. */
export const monotonicUs = () => Number(process.hrtime.bigint() / 1000n)

/** Resident memory in MiB. */
export const residentMiB = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+) kB/m)?.[1] ?? 0) / 1024

/** Every process that this one has started, and theirs; those that go meanwhile are left out. */
export function descendantsOf(pid: number): number[] {
  try {
    const children = readdirSync(`/proc/${pid}/task`).flatMap(thread =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    )
    return children.flatMap(child => [child, ...descendantsOf(child)])
  } catch {
    return []
  }
}

/** Resident memory in MiB, what is shared divided among those who share it. */
export function proportionalMiB(pid: number): number {
  try {
    return (
      Number(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').match(/^Pss:\s+(\d+) kB/m)?.[1] ?? 0) / 1024
    )
  } catch {
    return 0
  }
}

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
