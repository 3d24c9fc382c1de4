// Nonces and tokens: made here, good for a while and for so many, and gone with the process.
import { createHash, randomBytes } from 'node:crypto'

export const nonceSeconds = 60
export const tokenSeconds = 3600
/** Of one address, so that nobody can use up what the others need. */
const noncesPerAddress = 64
const nonceLimit = 4096
const tokensPerDevice = 16
const tokenLimit = 4096

interface Entry {
  readonly owner: string
  readonly endMs: number
}

/** Values by name, so many for each owner and in all; who comes beyond that takes the oldest one's place. */
function createShelf(perOwner: number, limit: number) {
  const entries = new Map<string, Entry>()
  const owned = new Map<string, Set<string>>()
  const take = (name: string): void => {
    const { owner } = entries.get(name) ?? {}
    if (owner === undefined) return
    entries.delete(name)
    const own = owned.get(owner)!
    own.delete(name)
    if (own.size === 0) owned.delete(owner)
  }
  const dropOldest = (names: ReadonlyMap<string, unknown> | ReadonlySet<string>, most: number): void => {
    if (names.size >= most) take(names.keys().next().value!)
  }
  return {
    take,
    put(name: string, owner: string, endMs: number, nowMs: number): void {
      for (const [key, entry] of entries) {
        if (entry.endMs > nowMs) break
        take(key)
      }
      dropOldest(owned.get(owner) ?? new Set(), perOwner)
      dropOldest(entries, limit)
      entries.set(name, { owner, endMs })
      owned.set(owner, (owned.get(owner) ?? new Set()).add(name))
    },
    get(name: string, nowMs: number): string | undefined {
      const entry = entries.get(name)
      return entry && entry.endMs > nowMs ? entry.owner : undefined
    },
  }
}

/** By digest, so that how long a look-up takes says nothing about a token. */
const digest = (token: string): string => createHash('sha256').update(token).digest('hex')

/** `nowMs` is monotonic: a jump of the host's clock neither ends nor prolongs anything. */
export function createNonces(nowMs: () => number) {
  const shelf = createShelf(noncesPerAddress, nonceLimit)
  return {
    issue(address: string): string {
      const nonce = randomBytes(32).toString('hex')
      shelf.put(nonce, address, nowMs() + nonceSeconds * 1000, nowMs())
      return nonce
    },
    /** True once: right or wrong, the first try spends it. */
    spend(nonce: string): boolean {
      const isGood = shelf.get(nonce, nowMs()) !== undefined
      shelf.take(nonce)
      return isGood
    },
  }
}

export function createTokens(nowMs: () => number) {
  const shelf = createShelf(tokensPerDevice, tokenLimit)
  return {
    issue(fingerprint: string): string {
      const token = randomBytes(32).toString('hex')
      shelf.put(digest(token), fingerprint, nowMs() + tokenSeconds * 1000, nowMs())
      return token
    },
    fingerprintOf: (token: string): string | undefined => shelf.get(digest(token), nowMs()),
  }
}
