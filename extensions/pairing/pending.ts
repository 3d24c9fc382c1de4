// The list of devices that knock, as a pure state machine: every input is explicit, monotonic time included
// (wire-decisions, "Pending devices").
import { isSamePeer, type Source } from './source.ts'

/** Places in all, and for the devices of one address. */
const most = 32
const mostPerAddress = 4
/** A device that has not knocked for so long is forgotten. */
export const listedMs = 600_000
/** Longest that a connection may wait for the operator. */
export const parkedMs = 180_000

export interface Pending {
  readonly id: number
  readonly fingerprint: string
  /** Fit to be shown. */
  readonly name: string
  readonly address: string | undefined
  readonly source: Source
  /** Monotonic milliseconds of its last knock. */
  readonly knockedMs: number
  /** Until when a connection of it waits for the operator; null: none does. */
  readonly parkedUntilMs: number | null
  /** It has been approved and is being stored: nothing takes it off the list before that is done. */
  readonly isHeld: boolean
}

/** The one that knocked longest ago comes first. */
export type PendingState = readonly Pending[]

export type KnockFacts = Pick<Pending, 'fingerprint' | 'name' | 'address' | 'source'>

export type Entered =
  | { readonly state: PendingState; readonly device: Pending; readonly isNew: boolean }
  | { readonly refused: 'full' }

const mayGo = (device: Pending): boolean => device.parkedUntilMs === null && !device.isHeld

/**
 * A device knocks. From this network it is parked, from elsewhere only listed, since it cannot be approved. A full list
 * gives up the least recent device that does not wait; where all wait, the knock changes nothing. `newId`: for a device
 * that is not listed.
 */
export const enter = (state: PendingState, nowMs: number, knock: KnockFacts, newId: number): Entered => {
  const before = state.find(({ fingerprint }) => fingerprint === knock.fingerprint)
  const others = state.filter(device => device !== before)
  const near = others.filter(({ address }) => isSamePeer(address, knock.address))
  const crowd = near.length >= mostPerAddress ? near : others.length >= most ? others : undefined
  const goes = crowd?.find(mayGo)
  if (crowd && !goes) return { refused: 'full' }
  const device: Pending = {
    ...knock,
    id: before?.id ?? newId,
    knockedMs: nowMs,
    parkedUntilMs: knock.source === 'lan' ? nowMs + parkedMs : null,
    isHeld: before?.isHeld ?? false,
  }
  return {
    state: [...others.filter(other => other !== goes), device],
    device,
    isNew: before === undefined,
  }
}

const change = (state: PendingState, id: number, fields: Partial<Pending>): PendingState =>
  state.map(device => (device.id === id ? { ...device, ...fields } : device))

/** Its connection has gone or was answered; it stays listed. */
export const unpark = (state: PendingState, id: number): PendingState =>
  change(state, id, { parkedUntilMs: null })

/** Its approval is being stored, or could not be. */
export const hold = (state: PendingState, id: number, isHeld: boolean): PendingState =>
  change(state, id, { isHeld })

export const remove = (state: PendingState, id: number): PendingState =>
  state.filter(device => device.id !== id)

/** Ends what has lasted its time: waiting connections (`unanswered`: their devices' ids), then places on the list. */
export const sweep = (
  state: PendingState,
  nowMs: number,
): { readonly state: PendingState; readonly unanswered: readonly number[] } => {
  const isOver = ({ parkedUntilMs }: Pending): boolean => parkedUntilMs !== null && nowMs >= parkedUntilMs
  const unanswered = state.filter(isOver).map(({ id }) => id)
  const left = state
    .map(device => (isOver(device) ? { ...device, parkedUntilMs: null } : device))
    .filter(device => !mayGo(device) || nowMs - device.knockedMs < listedMs)
  return { state: left, unanswered }
}
