// What becomes of an extension whose isolate or sandbox has ended: when it starts again, where, or that it does not.

/**
 * What came to its end: its isolate; likewise, but on a machine too busy to run it; the sandbox process around it; likewise,
 * but brought down by somebody else; the child process that is its own.
 */
export type Ending = 'isolate' | 'starved' | 'process' | 'neighbour' | 'child'

export interface History {
  /** Runs in a process of its own, since it brought a shared one down. */
  isAlone: boolean
  /** When it ended through its own doing, Unix milliseconds. */
  endings: number[]
  restarts: number
}

export type Verdict = { readonly againInMs: number } | { readonly quarantine: string }

const windowMs = 10 * 60_000
const limit = 5
const firstMs = 100
/** After a process: those who had to leave it with him come first, and Node takes its time. */
const firstAloneMs = 1000
const longestMs = 60_000

/** Decides, and writes it into the history. `random` from 0 to 1. */
export function judge(history: History, ending: Ending, why: string, now: number, random: number): Verdict {
  if (ending === 'neighbour' || ending === 'starved') {
    history.restarts += 1
    return { againInMs: 0 }
  }
  history.endings = [...history.endings.filter(at => now - at < windowMs), now]
  if (ending === 'process' && history.isAlone) {
    history.endings = []
    return { quarantine: `brought a sandbox of its own down as well (${why}); switch it on to try again` }
  }
  if (ending === 'process') history.isAlone = true
  const { length } = history.endings
  if (length >= limit) {
    history.endings = []
    const minutes = windowMs / 60_000
    return {
      quarantine: `ended ${length} times within ${minutes} minutes, the last time because ${why}; switch it on to try again`,
    }
  }
  history.restarts += 1
  if (length === 1) return { againInMs: ending === 'isolate' ? firstMs : firstAloneMs }
  return { againInMs: Math.min(longestMs, 1000 * 2 ** (length - 2)) * (0.75 + random / 2) }
}
