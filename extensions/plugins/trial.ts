// Switching to another version: the new one has to come up, or the one before is gone back to.
import type { ExtensionRecord, Extensions, PermissionDecision } from 'svc-host/sdk'
import { withProof } from './change.ts'
import type { Progress } from './jobs.ts'
import { type Layout, type Ledger, writeLedger } from './ledger.ts'
import { syncTokens } from './tokens.ts'

export interface Trial {
  readonly before: Ledger
  readonly next: Ledger
  readonly pkg: string
  /** What was decided before, where the operation has decided anew. */
  readonly decided?: PermissionDecision | undefined
}

/** What was decided before; a refusal that has come meanwhile stands. */
const restored = (
  before: PermissionDecision,
  added: readonly string[],
  now: PermissionDecision,
): PermissionDecision => {
  const isMeanwhile = added.some(each => !now.granted.includes(each))
  if (!isMeanwhile) return before
  return { granted: now.granted.filter(each => !added.includes(each)), refused: now.refused }
}

export interface TrialOptions {
  readonly configDir: string
  readonly layout: Layout
  readonly extensions: Extensions
  readonly reload: () => Promise<readonly ExtensionRecord[]>
}

/** Starts what the ledger names next; goes back when it does not come up although the one before did. */
export async function tryVersion(
  { before, next, pkg, decided }: Trial,
  { configDir, layout, extensions, reload }: TrialOptions,
  say: Progress,
): Promise<void> {
  const { id, unit } = next.packages[pkg]!
  const recordIn = (records: readonly ExtensionRecord[]) => records.find(each => each.id === id)
  const former = recordIn(extensions.list())?.state
  const added = extensions.decided(id).granted.filter(each => !decided?.granted.includes(each))
  const ids = Object.values(next.packages).map(each => each.id)
  await writeLedger(layout, next)
  await syncTokens(configDir, ids)
  say.phase('starting')
  const now = recordIn(await reload())
  if (unit) say.line(`the plugin runner runs ${id}`)
  else if (!now) say.line(`${id} starts with the next start that is not a safe one`)
  const isUpdate = before.dependencies[pkg] !== undefined
  const isUp = !now || now.state === 'on' || !now.enabled
  const isNoWorse = isUp || (former !== 'on' && now.state !== 'failed' && now.state !== 'quarantined')
  if (!isUpdate || isNoWorse) {
    await writeLedger(layout, withProof(next, pkg))
    if (now && !isUp) say.line(`${id} is ${now.state}: ${now.why}`)
    return
  }
  if (decided) await extensions.decide(id, restored(decided, added, extensions.decided(id)))
  await writeLedger(layout, before)
  const again = recordIn(await reload())
  const version = before.dependencies[pkg]
  throw new Error(
    `${id} ${next.dependencies[pkg]} did not come up: ${now.why}; ${version} is ${again?.state} again`,
  )
}
