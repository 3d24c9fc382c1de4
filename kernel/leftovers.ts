// What an earlier run left behind: taken back or kept, newest first, before anything else starts.
import type { Log } from 'svc-host/sdk'
import { type Found, loadDefault, type UndoKinds } from './discover.ts'
import { messageOf, runAs, within } from './errors.ts'
import { checkSeal } from './examine.ts'
import { undoFolder } from './folder.ts'
import type { Journal, Kept } from './journal.ts'
import type { Ledger } from './ledger.ts'
import { undoProcess } from './process.ts'

const undoLimitMs = 10_000

/** Kinds of the kernel's own, open to every extension. */
const ownKinds = { process: { undo: undoProcess }, folder: { undo: undoFolder } } as UndoKinds

/** Undoes what is left and says so; what cannot be undone stays in the journal, and that is said too. */
export async function undoLeftovers(
  journal: Journal,
  found: readonly Found[],
  ledger: Pick<Ledger, 'isTrusted'>,
  log: Log,
): Promise<void> {
  const left = journal.live().reverse()
  if (left.length === 0) return
  const counts = new Map<string, number>()
  for (const kept of left) {
    const name = `${kept.kind} of ${kept.owner}`
    let outcome: string
    try {
      outcome = await settle(kept, found, ledger)
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
async function kindsOf(
  kept: Kept,
  found: readonly Found[],
  ledger: Pick<Ledger, 'isTrusted'>,
): Promise<UndoKinds> {
  const { owner, kind, undoFile, installed } = kept
  if (undoFile === undefined && kind in ownKinds) return ownKinds
  // A stranger's module runs in this process only where the stranger may, and is what it was when it made the change.
  const isStranger = installed !== undefined || found.some(({ id, builtin }) => id === owner && !builtin)
  if (isStranger && !ledger.isTrusted(owner))
    throw new Error(`${owner} is not trusted in the host's own process; trust it to have this taken back`)
  if (installed?.seal !== undefined) await checkSeal(installed.folder, installed.seal)
  const own = found.find(({ id }) => id === owner)
  try {
    if (undoFile !== undefined) return await loadDefault<UndoKinds>(undoFile)
  } catch (error) {
    if (!own?.loadUndo) throw error
  }
  if (!own?.loadUndo) throw new Error('its extension is not here, and the record names no undo module')
  if (own.seal !== undefined) await checkSeal(own.folder, own.seal)
  return own.loadUndo()
}

async function settle(...given: Parameters<typeof kindsOf>): Promise<'undone' | 'kept'> {
  const [kept] = given
  const how = (await kindsOf(...given))[kept.kind]
  if (!how) throw new Error(`the undo module has no kind "${kept.kind}"`)
  const work = async (): Promise<'undone' | 'kept'> => {
    if (await how.adopt?.(kept.record)) return 'kept'
    await how.undo(kept.record)
    return 'undone'
  }
  return within(undoLimitMs, runAs(kept.owner, work))
}
