// The operator's consent to what a version asks for: what nobody has decided on yet, and what an answer makes of it.
import { beyond, covers, HttpError, type PermissionDecision, parsePermission } from 'svc-host/sdk'

/** What is granted with an operation: all that is asked for and not decided yet, or just these. */
export type Grant = 'all' | readonly string[]

export const nothingDecided: PermissionDecision = { granted: [], refused: [] }

/** What of it nobody has granted or refused. */
export const undecided = ({ granted, refused }: PermissionDecision, asks: readonly string[]): string[] =>
  beyond([...granted, ...refused], asks)

/** A refusal takes its part out of what was granted more widely. */
export function stateOf(
  { granted, refused }: PermissionDecision,
  permission: string,
): 'granted' | 'refused' | 'asked' {
  const isRefused = refused.some(each => covers(each, permission))
  const isGranted = granted.some(
    have => covers(have, permission) && !refused.some(each => covers(have, each) && covers(each, permission)),
  )
  return isGranted ? 'granted' : isRefused ? 'refused' : 'asked'
}

/** "a, b and c" */
export const listed = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), names.at(-1)].filter(Boolean).join(' and ')

/** A version asks for more than was decided, and nobody has said yes: nothing was changed. */
export class AsksForMore extends Error {
  readonly asks: readonly string[]
  constructor(version: string, asks: readonly string[]) {
    super(
      `${version} asks for more than was decided: ${listed(asks)}; nothing was changed; repeat it with --grant to accept that`,
    )
    this.asks = asks
  }
}

/** Refuses texts that are no permissions. */
export function checkTexts(grant: Grant): void {
  try {
    if (grant !== 'all') grant.forEach(parsePermission)
  } catch (error) {
    throw new HttpError(400, (error as Error).message)
  }
}

/** The decision with these granted; throws where one has nothing to do with what is asked for. */
export function granting(
  before: PermissionDecision,
  grant: Grant,
  asks: readonly string[],
): PermissionDecision {
  // A yes to everything says nothing about what was refused by name.
  if (grant === 'all')
    return { ...decidedBy(before, { granted: undecided(before, asks) }), refused: before.refused }
  const idle = grant.find(text => !asks.some(each => covers(text, each) || covers(each, text)))
  if (idle !== undefined)
    throw new Error(`it does not ask for ${idle}; it asks for ${listed(asks) || 'nothing'}`)
  return decidedBy(before, { granted: grant })
}

/** A decision replaces what was decided before on all that it covers. */
export function decidedBy(
  before: PermissionDecision,
  { granted = [], refused = [] }: Partial<PermissionDecision>,
): PermissionDecision {
  const left = (had: readonly string[]): string[] => beyond([...granted, ...refused], had)
  const joined = (had: readonly string[], more: readonly string[]) =>
    [...new Set([...left(had), ...more])].sort()
  return { granted: joined(before.granted, granted), refused: joined(before.refused, refused) }
}
