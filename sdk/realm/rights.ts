// What an extension may do, worked out alike by the host, which checks each call, and beside the author's own line.
import { PermissionError } from '../errors.ts'
import { covers, type PermissionDecision } from '../permission.ts'

/** What an extension asks for, and what was decided about it. */
export interface Decided extends PermissionDecision {
  readonly asked: readonly string[]
}

/** As `covers`; what is no permission gives nothing and is not given. */
export const gives = (pattern: string, needed: string): boolean => {
  try {
    return covers(pattern, needed)
  } catch {
    return false
  }
}

/** Whether it may: it asks for it, and it was granted, unless a refusal takes just that out of what was granted. */
export const allows = ({ asked, granted, refused }: Decided, needed: string): boolean =>
  asked.some(each => gives(each, needed)) &&
  granted.some(have => gives(have, needed) && !refused.some(no => gives(have, no) && gives(no, needed)))

/** Refuses with what the operator, or the author, can do about it. */
export function refuse(id: string, { asked }: Decided, needed: string): never {
  const shown = needed.slice(0, 200)
  const list = shown.startsWith('services:') ? '"requires" or "optional"' : '"permissions"'
  const kind = shown.slice(0, shown.indexOf(':'))
  const open = asked.find(each => each.startsWith(`${kind}:{config.`))
  const key = open?.slice(`${kind}:{config.`.length, -1)
  throw new PermissionError(
    shown,
    asked.some(each => gives(each, needed))
      ? `${id} has not been granted ${shown}; run svc-host plugins grant ${id} '${shown}'`
      : open
        ? `${id} asks for ${open}, but the operator has not set ${key} to what leads to ${shown} (a default does not ` +
          `count); run svc-host plugins config set ${id} ${key}=…`
        : `${id} does not ask for ${shown}; name it in ${list} of extension.json`,
  )
}
