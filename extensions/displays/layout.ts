// Where the displays of one desktop lie: left to right in the order of acquire, or where the operator put them.
import type { LayoutPolicy, Position } from './policy.ts'

export interface Member {
  /** Pixels. */
  readonly width: number
  readonly identitySlot: number | null
}

/** Top left corners in the members' order. Members that a manual layout does not place follow right of those it does. */
export function arrange(members: readonly Member[], layout: LayoutPolicy): Position[] {
  const placed = members.map(({ identitySlot }) =>
    layout.mode === 'manual' && identitySlot !== null ? layout.positions[String(identitySlot)] : undefined,
  )
  let x = Math.max(0, ...placed.map((position, i) => (position ? position.x + members[i]!.width : 0)))
  return placed.map((position, i) => {
    if (position) return position
    const next = { x, y: 0 }
    x += members[i]!.width
    return next
  })
}
