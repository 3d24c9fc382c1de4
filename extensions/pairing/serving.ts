// Whether a plane answers knocks and PIN exchanges: without one nothing can be armed, approved or taken back.
import { HttpError } from 'svc-host/sdk'

export interface Serving {
  readonly isServed: boolean
  /** A plane answers; returns the way to take that back. */
  serve(): () => void
  /** Calls `listener` whenever the last plane has gone. */
  onNone(listener: () => void): void
  /** Throws a 503 while no plane answers. */
  require(): void
}

export const createServing = (): Serving => {
  const listeners: (() => void)[] = []
  let planes = 0

  return {
    get isServed() {
      return planes > 0
    },
    serve: () => {
      planes++
      let isServing = true
      return () => {
        if (!isServing) return
        isServing = false
        planes--
        if (planes === 0) for (const listener of listeners) listener()
      }
    },
    onNone: listener => void listeners.push(listener),
    require: () => {
      if (planes === 0) throw new HttpError(503, 'the native plane is not running: switch it on')
    },
  }
}
