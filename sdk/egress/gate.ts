// So many at once, and the others in line.

/** Runs what is given as soon as fewer than `atOnce` are running; refuses when `waitingLimit` are in line already. */
export function createGate(atOnce: number, waitingLimit: number, what: string) {
  const line: (() => void)[] = []
  let running = 0
  return async <T>(run: () => Promise<T>): Promise<T> => {
    if (running >= atOnce && line.length >= waitingLimit)
      throw new Error(`${running} ${what} are under way and ${line.length} wait; let some end first`)
    if (running >= atOnce) await new Promise<void>(done => line.push(done))
    else running += 1
    try {
      return await run()
    } finally {
      const next = line.shift()
      if (next) next()
      else running -= 1
    }
  }
}
