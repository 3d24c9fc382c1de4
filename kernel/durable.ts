// Durable effects: recorded before the change, taken back when the scope closes or, after a crash, at the next start.
import type { Log } from 'svc-host/sdk'
import { type Found, loadDefault, type UndoKinds } from './discover.ts'
import { messageOf, runAs, within } from './errors.ts'
import { undoFolder } from './folder.ts'
import type { Journal, Kept } from './journal.ts'
import { undoProcess } from './process.ts'
import type { Effects } from './scope.ts'

const undoLimitMs = 10_000

/** Kinds of the kernel's own, open to every extension. */
const ownKinds = { process: { undo: undoProcess }, folder: { undo: undoFolder } } as UndoKinds

/** What an extension's durable effects need besides their scope. */
export interface Durables {
  readonly journal: Journal
  readonly kinds: UndoKinds
  readonly undoFile?: string
}

/** Records, changes, and registers the way back; a change that fails is taken back at once. */
export async function makeDurable<T>(
  effects: Effects,
  { journal, kinds, undoFile }: Durables,
  kind: string,
  record: object,
  change: () => T | Promise<T>,
): Promise<{ value: T; undo(): Promise<void> }> {
  const how = kinds[kind]
  if (!how) throw new Error(`the undo module of ${effects.owner} has no kind "${kind}"; add it there`)
  const label = `durable ${kind}`
  effects.refuse(label)
  const plain = JSON.parse(JSON.stringify(record)) as Record<string, unknown>
  const id = await journal.begin({ owner: effects.owner, kind, undoFile, record: plain })
  const changed = Promise.withResolvers<void>()
  const undo = effects.add(label, async () => {
    await changed.promise
    await how.undo(plain)
    await journal.strike(id)
  })
  try {
    const value = await runAs(effects.owner, async () => change())
    changed.resolve()
    effects.refuse(label)
    return { value, undo }
  } catch (error) {
    changed.resolve()
    await undo()
    throw error
  }
}

/** Undoes or keeps what an earlier run left behind, newest first, and says so. */
export async function undoLeftovers(journal: Journal, found: readonly Found[], log: Log): Promise<void> {
  const left = journal.live().reverse()
  if (left.length === 0) return
  const outcomes: Record<string, number> = {}
  for (const kept of left) {
    const name = `${kept.kind} of ${kept.owner}`
    const outcome = await settleOne(kept, found).catch(error => error as Error)
    if (outcome === 'undone') await journal.strike(kept.id)
    if (outcome instanceof Error) {
      log.error(
        `could not undo ${name}: ${messageOf(outcome)}; its record stays, the next start tries again`,
        {
          err: outcome,
        },
      )
    } else {
      log.info(`${outcome} ${name}, left by an earlier run`, { record: kept.record })
    }
    const word = outcome instanceof Error ? 'failed to undo' : outcome
    outcomes[`${word} ${kept.kind}`] = (outcomes[`${word} ${kept.kind}`] ?? 0) + 1
  }
  const counts = Object.entries(outcomes).map(([what, count]) => `${what} × ${count}`)
  log.warn(`an earlier run did not end by itself and left ${left.length} effects: ${counts.join(', ')}`)
}

async function settleOne(kept: Kept, found: readonly Found[]): Promise<'undone' | 'kept'> {
  const finder = found.find(({ id }) => id === kept.owner)
  const kinds =
    kept.undoFile === undefined && kept.kind in ownKinds
      ? ownKinds
      : // The module of the version that made the change, which stays on disk until its records have drained.
        await (kept.undoFile
          ? loadDefault<UndoKinds>(kept.undoFile)
          : Promise.reject(new Error('no undo module'))
        ).catch(error => finder?.loadUndo?.() ?? Promise.reject(error))
  const how = kinds[kept.kind]
  if (!how) throw new Error(`the undo module has no kind "${kept.kind}"`)
  return within(
    undoLimitMs,
    runAs(kept.owner, async (): Promise<'undone' | 'kept'> => {
      if (await how.adopt?.(kept.record)) return 'kept'
      await how.undo(kept.record)
      return 'undone'
    }),
  )
}
