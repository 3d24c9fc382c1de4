// Who is registered: each plugin for as long as it renews; nothing of it is kept on disk.
import type { PluginSummary, Registration, UiCredential } from './schema.ts'

/** A plugin repeats its registration every 30 s; who has not for this long is gone. */
const leaseMs = 90_000

export interface Registry {
  /** Registers or renews. */
  put(id: string, registration: Registration): void
  remove(id: string): void
  /** Live ones by title, then id; those whose lease is over leave now. */
  list(): PluginSummary[]
  credential(id: string): UiCredential | undefined
}

export interface RegistryOptions {
  /** Milliseconds of a clock that never jumps. */
  readonly nowMs: () => number
  readonly onChange: (id: string) => void
}

interface Lease {
  readonly registration: Registration
  readonly text: string
  readonly endMs: number
}

const byName = (a: PluginSummary, b: PluginSummary): number =>
  a.title === b.title ? (a.id < b.id ? -1 : 1) : a.title < b.title ? -1 : 1

export function createRegistry({ nowMs, onChange }: RegistryOptions): Registry {
  const leases = new Map<string, Lease>()
  const live = (id: string): Lease | undefined => {
    const lease = leases.get(id)
    return lease && lease.endMs > nowMs() ? lease : undefined
  }
  return {
    put(id, registration) {
      const text = JSON.stringify(registration)
      const isRenewal = live(id)?.text === text
      leases.set(id, { registration, text, endMs: nowMs() + leaseMs })
      if (!isRenewal) onChange(id)
    },
    remove(id) {
      const wasLive = live(id) !== undefined
      leases.delete(id)
      if (wasLive) onChange(id)
    },
    list() {
      for (const id of [...leases.keys()]) {
        if (live(id)) continue
        leases.delete(id)
        onChange(id)
      }
      const rows = [...leases].map(([id, { registration }]) => {
        const { ui, ...plain } = registration
        const { secret: _, ...face } = ui ?? { secret: '' }
        return { id, ...plain, ...(ui && { ui: face as { port: number } }) }
      })
      return rows.sort(byName)
    },
    credential(id) {
      const ui = live(id)?.registration.ui
      return ui && { port: ui.port, secret: ui.secret }
    },
  }
}
