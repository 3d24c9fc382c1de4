// Permissions: what each extension asks for, what the operator has decided about it, and the check at every call.
import { homedir } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import {
  type ExtensionRecord,
  type Extensions,
  HttpError,
  type PermissionDecision,
  parsePermission,
} from 'svc-host/sdk'
import { allows, gives as covers, type Decided, refuse } from '../sdk/realm/rights.ts'
import { fromConfig } from './configured.ts'
import type { Found, Manifest } from './discover.ts'
import { messageOf } from './errors.ts'
import type { Ledger } from './ledger.ts'
import type { Roster } from './roster.ts'

/** What one extension may do, as it stands at each call. */
export interface Rights {
  has(permission: string): boolean
  /** Throws a `PermissionError` unless it has it. */
  check(permission: string): void
  readonly decided: Decided
  /** Nothing is checked. */
  readonly isFree: boolean
}

/** Whether nothing is checked: in the kernel's own process nothing could hold it. */
const isFree = ({ id, manifest, builtin }: Found, ledger: Ledger): boolean =>
  manifest?.realm === 'kernel' && (builtin || ledger.isTrusted(id))

/** What a manifest asks for: its permissions, and the services that it names. */
export const asksFor = ({ permissions, requires, optional }: Manifest): string[] => [
  ...new Set([...permissions, ...Object.keys({ ...requires, ...optional }).map(id => `services:${id}`)]),
]

/** Texts without `~`, so that both ways to write a folder mean the same. */
const plain = (text: string): string => text.replace(/^(read|write):~\//, `$1:${homedir()}/`)

export const gives = (pattern: string, needed: string): boolean => covers(plain(pattern), plain(needed))

const rememberedLimit = 1024

/** Looks up rights, and remembers them as long as nothing is decided anew. */
export function createRights(ledger: Ledger, configOf: (id: string) => unknown): (found: Found) => Rights {
  const known = new WeakMap<Found, Rights>()
  return found => {
    const rights = known.get(found) ?? rightsOf(found, ledger, configOf)
    known.set(found, rights)
    return rights
  }
}

/** A built-in has what it asks for. */
function decidedOf({ id, manifest, builtin }: Found, ledger: Ledger, config?: unknown): Decided {
  const asked = manifest ? asksFor(manifest) : []
  const { granted, refused } = builtin ? { granted: asked, refused: [] } : ledger.decisionOf(id)
  const whole = (texts: readonly string[]): string[] =>
    texts.flatMap(text => [text, ...fromConfig(text, config)]).map(plain)
  return { asked: whole(asked), granted: whole(granted), refused: whole(refused) }
}

function rightsOf(found: Found, ledger: Ledger, configOf: (id: string) => unknown): Rights {
  const { id } = found
  const isInConfig = found.manifest?.permissions.some(text => text.includes(':{config.'))
  let since: PermissionDecision | undefined
  let config: unknown
  let decided = decidedOf(found, ledger)
  const remembered = new Map<string, boolean>()
  const refresh = (): void => {
    const configNow = isInConfig ? configOf(id) : undefined
    if (since === ledger.decisionOf(id) && config === configNow) return
    since = ledger.decisionOf(id)
    config = configNow
    decided = decidedOf(found, ledger, config)
    remembered.clear()
  }
  const has = (needed: string): boolean => {
    if (isFree(found, ledger)) return true
    refresh()
    const known = remembered.get(needed)
    if (known !== undefined) return known
    const may = allows(decided, plain(needed))
    if (remembered.size < rememberedLimit) remembered.set(needed, may)
    return may
  }
  return {
    has,
    check: needed => has(needed) || refuse(id, decided, plain(needed)),
    get decided() {
      refresh()
      return decided
    },
    get isFree() {
      return isFree(found, ledger)
    },
  }
}

/** Each permission that it asks for, and what was decided; none where nothing is checked. */
export function listDecided(found: Found, ledger: Ledger): ExtensionRecord['permissions'] {
  if (!found.manifest || isFree(found, ledger)) return []
  const decided = decidedOf(found, ledger)
  return asksFor(found.manifest).map(permission => {
    const isRefused = decided.refused.some(each => gives(each, permission))
    const state = allows(decided, plain(permission)) ? 'granted' : isRefused ? 'refused' : 'asked'
    return { permission, state }
  })
}

/** Why it cannot start yet: nobody has decided on all that it asks for. */
export function undecided(found: Found, ledger: Ledger): string | undefined {
  const open = listDecided(found, ledger).flatMap(({ permission, state }) =>
    state === 'asked' ? [permission] : [],
  )
  if (open.length === 0) return undefined
  const names = [open.slice(0, -1).join(', '), open.at(-1)].filter(Boolean).join(' and ')
  return `asks for ${names}, which nobody has granted; run svc-host plugins grant ${found.id}`
}

/** Throws 400 for what is no permission, or is both granted and refused. */
function checkDecision({ granted, refused }: PermissionDecision): void {
  for (const text of [...granted, ...refused])
    try {
      parsePermission(text)
    } catch (error) {
      throw new HttpError(400, messageOf(error))
    }
  const both = granted.find(text => refused.includes(text))
  if (both !== undefined) throw new HttpError(400, `${both} cannot be granted and refused at once`)
}

/** A text replaces what it covers. */
function joined(had: readonly string[], more: readonly string[], against: readonly string[]): string[] {
  const left = had.filter(each => ![...more, ...against].some(by => gives(by, each)))
  return [...new Set([...left, ...more])].sort()
}

export interface PermitsOptions {
  readonly roster: Pick<Roster, 'get'>
  readonly ledger: Ledger
  readonly life: Pick<Extensions, 'list'> & { reconcile(): Promise<void> }
}

/** What the operator does with permissions. */
export function createPermits(options: PermitsOptions): Pick<Extensions, 'permit' | 'decided' | 'decide'> {
  const { roster, ledger, life } = options
  return {
    async permit(id, { granted = [], refused = [] }) {
      const unit = roster.get(id)
      if (!unit) throw new HttpError(404, `there is no extension "${id}"`)
      if (unit.found.builtin) throw new HttpError(409, `${id} is built in; it has what it asks for`)
      checkDecision({ granted, refused })
      const before = ledger.decisionOf(id)
      await ledger.decide(id, now => ({
        granted: joined(now.granted, granted, refused),
        refused: joined(now.refused, refused, granted),
      }))
      if (!isDeepStrictEqual(before, ledger.decisionOf(id))) unit.outdated = 'its permissions have changed'
      unit.failure = undefined
      await life.reconcile()
      return life.list().find(record => record.id === id)!
    },
    decided: ledger.decisionOf,
    async decide(id, decision) {
      checkDecision(decision)
      await ledger.decide(id, () => decision)
    },
  }
}
