// Durable effects: recorded before the change, taken back when the scope closes or, after a crash, at the next start.
import { runAs } from './errors.ts'
import type { Journal, Kept } from './journal.ts'
import type { Effects } from './scope.ts'

export interface Durable<T> {
  readonly label: string
  readonly kind: string
  readonly record: object
  /** Module that takes it back after a crash; absent for the kernel's own kinds. */
  readonly undoFile?: string
  readonly installed?: Kept['installed']
  undo(record: object): unknown
  /** Makes the change; `amend` adds to the record what is known only then. */
  change(amend: (more: object) => Promise<void>): T | Promise<T>
}

/** Records, changes, and registers the way back; a change that fails is taken back at once. */
export async function makeDurable<T>(
  effects: Effects,
  journal: Journal,
  { label, kind, record: given, undoFile, installed, undo: takeBack, change }: Durable<T>,
): Promise<{ value: T; undo(): Promise<void> }> {
  effects.refuse(label)
  const record = JSON.parse(JSON.stringify(given)) as Record<string, unknown>
  const id = await journal.begin({ owner: effects.owner, kind, undoFile, installed, record })
  const changed = Promise.withResolvers<void>()
  const undo = effects.add(label, async () => {
    await changed.promise
    await takeBack(record)
    await journal.strike(id)
  })
  const amend = (more: object): Promise<void> => {
    Object.assign(record, more)
    return journal.amend(id, more)
  }
  try {
    const value = await runAs(effects.owner, async () => change(amend))
    changed.resolve()
    effects.refuse(label)
    return { value, undo }
  } catch (error) {
    changed.resolve()
    await undo()
    throw error
  }
}
