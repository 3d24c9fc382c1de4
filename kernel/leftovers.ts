// What an earlier run left behind: taken back or kept, newest first, before anything else starts.
import type { Log } from 'svc-host/sdk'
import { type Found, loadDefault, type UndoKinds } from './discover.ts'
import { messageOf, runAs, within } from './errors.ts'
import { undoFolder } from './folder.ts'
import type { Journal, Kept } from './journal.ts'
import { undoProcess } from './process.ts'

const undoLimitMs = 10_000

/** Kinds of the kernel's own, open to every extension. */
const ownKinds = { process: { undo: undoProcess }, folder: { undo: undoFolder } } as UndoKinds

/** Undoes what is left and says so; what cannot be undone stays in the journal, and that is said too. */
export async function undoLeftovers(journal: Journal, found: readonly Found[], log: Log): Promise<void> {
  const left = journal.live().reverse()
  if (left.length === 0) return
  const counts = new Map<string, number>()
  for (const kept of left) {
    const name = `${kept.kind} of ${kept.owner}`
    let outcome: string
    try {
      outcome = await settle(kept, found)
      if (outcome === 'undone') await journal.strike(kept.id)
      log.info(`${outcome} ${name}, left by an earlier run`, { record: kept.record })
    } catch (error) {
      outcome = 'failed to undo'
      const remedy = 'its record stays, the next start tries again'
      log.error(`could not undo ${name}: ${messageOf(error)}; ${remedy}`, { err: error })
    }
    const line = `${outcome} ${kept.kind}`
    counts.set(line, (counts.get(line) ?? 0) + 1)
  }
  const summary = [...counts].map(([line, count]) => `${line} × ${count}`).join(', ')
  log.warn(`an earlier run did not end by itself and left ${left.length} effects: ${summary}`)
}

/** The module of the version that made the change stays on disk until its records have drained. */
async function kindsOf({ owner, kind, undoFile }: Kept, found: readonly Found[]): Promise<UndoKinds> {
  if (undoFile === undefined && kind in ownKinds) return ownKinds
  const fallback = found.find(({ id }) => id === owner)?.loadUndo
  try {
    if (undoFile !== undefined) return await loadDefault<UndoKinds>(undoFile)
  } catch (error) {
    if (!fallback) throw error
  }
  if (!fallback) throw new Error('its extension is not here, and the record names no undo module')
  return fallback()
}

async function settle(kept: Kept, found: readonly Found[]): Promise<'undone' | 'kept'> {
  const how = (await kindsOf(kept, found))[kept.kind]
  if (!how) throw new Error(`the undo module has no kind "${kept.kind}"`)
  const work = async (): Promise<'undone' | 'kept'> => {
    if (await how.adopt?.(kept.record)) return 'kept'
    await how.undo(kept.record)
    return 'undone'
  }
  return within(undoLimitMs, runAs(kept.owner, work))
}
