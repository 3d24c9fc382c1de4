// What the operator has decided about extensions, and how their starts went: `extensions.json` in the config folder.
import { join } from 'node:path'
import type { PermissionDecision } from 'svc-host/sdk'
import { z } from 'zod'
import { openDocument } from './documents.ts'

const Permitted = z.object({
  granted: z.array(z.string()).default([]),
  refused: z.array(z.string()).default([]),
})
const Decisions = z.object({
  version: z.number().int().default(1),
  /** Switched off. */
  disabled: z.array(z.string()).default([]),
  /** Installed ones that may run in the host's own process. */
  trusted: z.array(z.string()).default([]),
  /** Failed starts in a row, by id. */
  failures: z.record(z.string(), z.number().int()).default({}),
  /** Those that are not started again by themselves, with the sentence why. */
  quarantined: z.record(z.string(), z.string()).default({}),
  permissions: z.record(z.string(), Permitted).default({}),
})

export interface Ledger {
  isDisabled(id: string): boolean
  isTrusted(id: string): boolean
  failuresOf(id: string): number
  quarantineOf(id: string): string | undefined
  quarantine(id: string, why: string): Promise<void>
  /** Switching on forgets the failures and ends a quarantine. */
  setEnabled(id: string, enabled: boolean): Promise<void>
  countFailure(id: string, hasFailed: boolean): Promise<void>
  setTrusted(id: string, trusted: boolean): Promise<void>
  /** Always the same object until something is decided anew. */
  decisionOf(id: string): PermissionDecision
  decide(id: string, change: (before: PermissionDecision) => PermissionDecision): Promise<void>
  /** Drops all that was decided about one that is no longer here. */
  forget(id: string): Promise<void>
}

const mutable = ({ granted, refused }: PermissionDecision): z.output<typeof Permitted> => ({
  granted: [...granted],
  refused: [...refused],
})
const nothing: PermissionDecision = { granted: [], refused: [] }

export async function openLedger(configDir: string, warn: (message: string) => void): Promise<Ledger> {
  const file = await openDocument(join(configDir, 'extensions.json'), Decisions, warn)
  const of = <T>(record: Record<string, T>, id: string): T | undefined =>
    Object.hasOwn(record, id) ? record[id] : undefined
  const failuresOf = (id: string): number => of(file.value.failures, id) ?? 0
  const without = <T>(record: Record<string, T>, id: string): Record<string, T> =>
    Object.fromEntries(Object.entries(record).filter(([key]) => key !== id))
  const toggled = (ids: readonly string[], id: string, isIn: boolean): string[] =>
    [...ids.filter(each => each !== id), ...(isIn ? [id] : [])].sort()
  return {
    isDisabled: id => file.value.disabled.includes(id),
    isTrusted: id => file.value.trusted.includes(id),
    failuresOf,
    quarantineOf: id => of(file.value.quarantined, id),
    quarantine: (id, why) => file.write(now => ({ ...now, quarantined: { ...now.quarantined, [id]: why } })),
    setEnabled: (id, enabled) =>
      file.write(now => ({
        ...now,
        disabled: toggled(now.disabled, id, !enabled),
        failures: enabled ? without(now.failures, id) : now.failures,
        quarantined: enabled ? without(now.quarantined, id) : now.quarantined,
      })),
    async countFailure(id, hasFailed) {
      const count = hasFailed ? failuresOf(id) + 1 : 0
      const isForgiven = !hasFailed && of(file.value.quarantined, id) !== undefined
      if (count === failuresOf(id) && !isForgiven) return
      await file.write(now => ({
        ...now,
        failures: count ? { ...now.failures, [id]: count } : without(now.failures, id),
        quarantined: isForgiven ? without(now.quarantined, id) : now.quarantined,
      }))
    },
    setTrusted: (id, trusted) => file.write(now => ({ ...now, trusted: toggled(now.trusted, id, trusted) })),
    decisionOf: id => of(file.value.permissions, id) ?? nothing,
    decide: (id, change) =>
      file.write(now => ({
        ...now,
        permissions: { ...now.permissions, [id]: mutable(change(of(now.permissions, id) ?? nothing)) },
      })),
    async forget(id) {
      const { disabled, trusted, failures, quarantined, permissions } = file.value
      const named = Object.keys({ ...failures, ...quarantined, ...permissions })
      if (![...disabled, ...trusted, ...named].includes(id)) return
      await file.write(now => ({
        ...now,
        disabled: toggled(now.disabled, id, false),
        trusted: toggled(now.trusted, id, false),
        failures: without(now.failures, id),
        quarantined: without(now.quarantined, id),
        permissions: without(now.permissions, id),
      }))
    },
  }
}
