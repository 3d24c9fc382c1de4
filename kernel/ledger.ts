// What the operator has decided about extensions, and how their starts went: `extensions.json` in the config folder.
import { join } from 'node:path'
import { z } from 'zod'
import { openDocument } from './documents.ts'

const Decisions = z.object({
  version: z.number().int().default(1),
  /** Switched off. */
  disabled: z.array(z.string()).default([]),
  /** Installed ones that may run in the host's own process. */
  trusted: z.array(z.string()).default([]),
  /** Failed starts in a row, by id. */
  failures: z.record(z.string(), z.number().int()).default({}),
})

export interface Ledger {
  isDisabled(id: string): boolean
  isTrusted(id: string): boolean
  failuresOf(id: string): number
  /** Switching on forgets the failures. */
  setEnabled(id: string, enabled: boolean): Promise<void>
  countFailure(id: string, hasFailed: boolean): Promise<void>
  setTrusted(id: string, trusted: boolean): Promise<void>
  /** Drops all that was decided about one that is no longer here. */
  forget(id: string): Promise<void>
}

export async function openLedger(configDir: string, warn: (message: string) => void): Promise<Ledger> {
  const file = await openDocument(join(configDir, 'extensions.json'), Decisions, warn)
  const failuresOf = (id: string): number => file.value.failures[id] ?? 0
  const counted = (failures: Record<string, number>, id: string, count: number): Record<string, number> =>
    Object.fromEntries(Object.entries({ ...failures, [id]: count }).filter(([, failed]) => failed > 0))
  return {
    isDisabled: id => file.value.disabled.includes(id),
    isTrusted: id => file.value.trusted.includes(id),
    failuresOf,
    setEnabled: (id, enabled) =>
      file.write(now => {
        const others = now.disabled.filter(each => each !== id)
        const failures = enabled ? counted(now.failures, id, 0) : now.failures
        return { ...now, failures, disabled: enabled ? others : [...others, id].sort() }
      }),
    async countFailure(id, hasFailed) {
      const count = hasFailed ? failuresOf(id) + 1 : 0
      if (count !== failuresOf(id))
        await file.write(now => ({ ...now, failures: counted(now.failures, id, count) }))
    },
    setTrusted: (id, trusted) =>
      file.write(now => {
        const others = now.trusted.filter(each => each !== id)
        return { ...now, trusted: trusted ? [...others, id].sort() : others }
      }),
    async forget(id) {
      const { disabled, trusted, failures } = file.value
      if (![...disabled, ...trusted, ...Object.keys(failures)].includes(id)) return
      await file.write(now => ({
        ...now,
        disabled: now.disabled.filter(each => each !== id),
        trusted: now.trusted.filter(each => each !== id),
        failures: counted(now.failures, id, 0),
      }))
    },
  }
}
