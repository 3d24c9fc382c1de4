// Counts what is open (responses, upgraded connections), so that it can be waited for and cut.

export class Tally {
  readonly #cuts = new Set<() => void>()
  #waiting: (() => void)[] = []

  get size(): number {
    return this.#cuts.size
  }

  /** Counts one more; `cut` ends it by force. Returns the way to count it off, once. */
  add(cut: () => void): () => void {
    const entry = (): void => cut()
    this.#cuts.add(entry)
    return () => {
      if (this.#cuts.delete(entry) && this.#cuts.size === 0)
        for (const done of this.#waiting.splice(0)) done()
    }
  }

  /** Resolves when nothing is open; what still is after `graceMs` is cut. Without a limit it waits on. */
  async drained(graceMs?: number): Promise<void> {
    if (this.#cuts.size === 0) return
    const idle = new Promise<void>(done => this.#waiting.push(done))
    if (graceMs === undefined) return idle
    const timer = setTimeout(() => {
      for (const cut of [...this.#cuts]) cut()
    }, graceMs)
    await idle
    clearTimeout(timer)
  }
}
