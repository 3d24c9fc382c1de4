// Handles that several users share: opened for the first, closed after the last.

/** Something native that can be closed, and may end by itself. */
export interface Handle {
  /** Settles when the handle is of no use any more; absent: it lasts until it is closed. */
  readonly ended?: Promise<unknown>
  close(): Promise<void>
}

export interface Held<T> {
  readonly value: T
  /** Gives the share back; idempotent. Resolves once the handle is closed, when this was the last share. */
  release(): Promise<void>
}

interface Entry<T> {
  readonly opening: Promise<T>
  users: number
}

/** Shares by key. An opening that fails fails for all who wait for it, and leaves nothing behind. */
export const createCounted = <T extends Handle>() => {
  const entries = new Map<string, Entry<T>>()

  const drop = (key: string, entry: Entry<T>): void => {
    if (entries.get(key) === entry) entries.delete(key)
  }

  return {
    /** Keys that are open or being opened now. */
    keys: (): string[] => [...entries.keys()],

    hold: async (key: string, open: () => Promise<T>): Promise<Held<T>> => {
      const entry: Entry<T> = entries.get(key) ?? { opening: open(), users: 0 }
      entries.set(key, entry)
      entry.users++
      let value: T
      try {
        value = await entry.opening
      } catch (error) {
        entry.users--
        drop(key, entry)
        throw error
      }
      // Whoever comes after the end opens anew; those who hold it close it when they let go.
      void value.ended?.then(() => drop(key, entry))
      let isHeld = true
      return {
        value,
        release: async () => {
          if (!isHeld) return
          isHeld = false
          if (--entry.users > 0) return
          drop(key, entry)
          await value.close()
        },
      }
    },
  }
}
