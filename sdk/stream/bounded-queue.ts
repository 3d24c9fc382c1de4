// An async queue between the network and a consumer that may be slow: bounded, with an end.

export interface BoundedQueue<T> extends AsyncIterable<T> {
  /** False when the queue is full and the item was not taken. */
  push(item: T): boolean
  /** Throws away what waits; gives how many items that were. */
  clear(): number
  /** Iteration ends once what waits has been taken. */
  end(): void
  readonly length: number
}

/** Full at `maxItems` items, or at `maxBytes` as measured by `bytesOf`. For one consumer. */
export const createBoundedQueue = <T>(
  maxItems: number,
  maxBytes: number,
  bytesOf: (item: T) => number,
): BoundedQueue<T> => {
  let items: T[] = []
  let bytes = 0
  let isEnded = false
  let wake: (() => void) | undefined
  return {
    get length() {
      return items.length
    },
    push: item => {
      if (isEnded || items.length >= maxItems || bytes + bytesOf(item) > maxBytes) return false
      items.push(item)
      bytes += bytesOf(item)
      wake?.()
      return true
    },
    clear: () => {
      const n = items.length
      items = []
      bytes = 0
      return n
    },
    end: () => {
      isEnded = true
      wake?.()
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const item = items.shift()
        if (item !== undefined) {
          bytes -= bytesOf(item)
          yield item
        } else if (isEnded) return
        else {
          await new Promise<void>(resolve => {
            wake = resolve
          })
          wake = undefined
        }
      }
    },
  }
}
