// Errors that nobody caught: laid at the door of the extension whose code left them behind.
import type { Log } from 'svc-host/sdk'
import { currentOwner, type Faults, messageOf } from './errors.ts'
import { kernelOwner } from './extensions.ts'

/** An extension's stray error is counted and the host lives on; the kernel's own ends the process. */
export function catchStrays(faults: Faults, log: Log): () => void {
  const catcher = (during: string) => (error: unknown) => {
    const owner = currentOwner()
    if (owner !== undefined && owner !== kernelOwner) {
      faults.report(owner, during, error)
      return
    }
    log.error(`the host has made a mistake and ends: ${messageOf(error)}`, { during, err: error })
    process.exit(70)
  }
  const thrown = catcher('stray error')
  const rejected = catcher('stray rejection')
  process.on('uncaughtException', thrown)
  process.on('unhandledRejection', rejected)
  return () => {
    process.off('uncaughtException', thrown)
    process.off('unhandledRejection', rejected)
  }
}
