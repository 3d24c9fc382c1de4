// One display of the pool: what it is, whose it is, and the references to it.
import type { Mode } from 'svc-host/api/media'
import type { BackendDisplay, DisplayBackend, DisplayRequest } from './api.ts'
import { type Life, type LifeInput, step } from './lifecycle.ts'
import type { Topology } from './policy.ts'

export interface PooledDisplay {
  readonly slot: number
  readonly backend: DisplayBackend
  /** Of the client that it was made for. */
  readonly request: DisplayRequest
  readonly identitySlot: number | null
  readonly topology: Topology
  /** Of the backend when it was made. */
  readonly epoch: number
  readonly life: Life
  /** The mode in force. */
  mode: Mode
  /** Undefined until the backend has made it. */
  made: BackendDisplay | undefined
  /** Resolves when it has died under those who hold it. */
  readonly lost: PromiseWithResolvers<void>
  /** Goes on to the next state; false when the input does not apply. */
  go(input: LifeInput): boolean
}

export function createPooledDisplay(
  facts: Pick<PooledDisplay, 'slot' | 'backend' | 'request' | 'identitySlot' | 'topology'>,
): PooledDisplay {
  let life: Life = { state: 'idle' }
  return {
    ...facts,
    epoch: facts.backend.epoch?.() ?? 0,
    mode: facts.request.mode,
    made: undefined,
    lost: Promise.withResolvers<void>(),
    get life() {
      return life
    },
    go(input) {
      const next = step(life, input)
      const isNew = next !== life
      life = next
      return isNew
    },
  }
}
