// `svc-host plugins doctor`: named checks, each with what was found, to what, and what to do about it.
import { type Colour, paint, plain } from 'svc-host/api/ctl'

export interface Finding {
  /** Name of the check. */
  readonly check: string
  /** `error`: something does not work or is not safe; `warning`: it may not stay so; `skipped`: it cannot be told now. */
  readonly level: 'ok' | 'skipped' | 'warning' | 'error'
  /** The extension that it is about. */
  readonly id?: string
  readonly what: string
  readonly remedy?: string
}

/** A check looks and tells; one that throws is itself a finding. */
export interface Check {
  readonly name: string
  look(): Promise<readonly Omit<Finding, 'check'>[]>
}

export async function examineAll(checks: readonly Check[], id: string | undefined): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const { name, look } of checks) {
    const failed = (error: Error): Omit<Finding, 'check'>[] => [{ level: 'error', what: error.message }]
    const found = await look().catch(failed)
    // Of one alone: what is about it, and what cannot be told.
    const meant = found.filter(each => id === undefined || each.id === id || each.level === 'skipped')
    const told = meant.length || id !== undefined ? meant : [{ level: 'ok' as const, what: 'in order' }]
    findings.push(...told.map(each => ({ check: name, ...each })))
  }
  return findings.length || id === undefined
    ? findings
    : [{ check: 'all', level: 'ok', id, what: 'in order' }]
}

const colours: Record<Finding['level'], Colour> = {
  ok: 'green',
  skipped: 'dim',
  warning: 'yellow',
  error: 'red',
}

/** `2 warnings`. */
const counted = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`

export function findingsText(out: NodeJS.WritableStream, findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.map(({ check, level, id, what, remedy }) => {
    const about = id === undefined ? '' : `${id}: `
    const first = `${paint(out, colours[level], level.padEnd(7))}  ${check.padEnd(width)}  ${plain(`${about}${what}`)}`
    return remedy === undefined ? first : `${first}\n${' '.repeat(width + 11)}→ ${plain(remedy)}`
  })
  const of = (level: Finding['level']): number => findings.filter(each => each.level === level).length
  const verdict = [
    of('error') && counted(of('error'), 'error'),
    of('warning') && counted(of('warning'), 'warning'),
  ]
  return `${lines.join('\n')}\n\n${verdict.filter(Boolean).join(', ') || 'All is well'}.`
}
