// Which backend makes the next display, and a sentence when none can.
import type { DisplayBackend } from './api.ts'

export interface BackendChoice {
  /** `software`: the generated test picture. */
  readonly source?: 'software' | undefined
  /** Wire spelling of a backend. */
  readonly compositor?: string | undefined
}

/** What the settings name, as a backend's id and the words for it. */
const named = ({ source, compositor }: BackendChoice): { id: string; because: string } | undefined => {
  if (source === 'software') return { id: 'test-picture', because: 'SVC_SOURCE asks for the test picture' }
  if (compositor !== undefined) return { id: compositor, because: `SVC_COMPOSITOR asks for ${compositor}` }
  return undefined
}

/** The backend to use; rejects with a sentence that says for each candidate what is missing. */
export async function chooseBackend(
  backends: readonly DisplayBackend[],
  choice: BackendChoice,
): Promise<DisplayBackend> {
  const wanted = named(choice)
  if (wanted) {
    const backend = backends.find(({ id }) => id === wanted.id)
    if (!backend) {
      const others = backends.map(({ id }) => id).join(', ') || 'none'
      throw new Error(
        `${wanted.because}, but no extension that is on offers the display backend ${wanted.id} (offered: ${others})`,
      )
    }
    const available = await backend.available()
    if (available !== true)
      throw new Error(`${wanted.because}, but ${backend.id} cannot be used: ${available}`)
    return backend
  }
  const candidates = backends
    .filter(({ preference }) => preference !== null)
    .sort((a, b) => b.preference! - a.preference!)
  const missing: string[] = []
  for (const backend of candidates) {
    const available = await backend.available()
    if (available === true) return backend
    missing.push(`${backend.id}: ${available}`)
  }
  throw new Error(
    missing.length
      ? `no display can be made; ${missing.join('; ')}`
      : 'no display can be made: no extension that makes displays is on; switch one on, for example display-x11',
  )
}
