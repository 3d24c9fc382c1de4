// Effects: everything that an extension registers, labelled, and undone last-in first-out, each awaited.
import { messageOf, runAs, within } from './errors.ts'

/** How long one effect may take to be undone. */
const undoLimitMs = 10_000

// biome-ignore lint/suspicious/noConfusingVoidType: a start that returns nothing is the common case
type Stop = (() => unknown) | undefined | void

export interface Effects {
  readonly owner: string
  readonly signal: AbortSignal
  /** True from the moment its routes are taken off; nested scopes follow. */
  readonly hidden: boolean
  labels(): string[]
  /** Registers something that is done at once, and keeps the way back that it returns; throws when closing. */
  register(label: string, start: () => () => unknown): void
  /** Keeps the way back of something already done; returns what undoes it early, once. */
  add(label: string, undo: () => unknown): () => Promise<void>
  /** Runs `start` and keeps what it returns as the way back. */
  run(label: string, start: () => Stop | Promise<Stop>): Promise<void>
  child(label: string): Effects
  /** Throws when nothing more may be registered. */
  refuse(label: string): void
  hide(): void
  abort(): void
  /** Undoes everything; never rejects. */
  close(): Promise<void>
}

interface Entry {
  readonly label: string
  readonly inner?: Effects
  end(): Promise<void>
}

type Report = (owner: string, during: string, error: unknown) => void

export function createEffects(owner: string, report: Report, outer?: Effects): Effects {
  const entries = new Set<Entry>()
  const controller = new AbortController()
  let hidden = false
  let closed: Promise<void> | undefined

  const refuse = (label: string): void => {
    if (controller.signal.aborted) throw new Error(`${owner} is stopping; "${label}" was not registered`)
  }

  const keep = (label: string, undo: () => unknown, inner?: Effects): (() => Promise<void>) => {
    let ended: Promise<void> | undefined
    const entry: Entry = {
      label,
      inner,
      end: () => {
        ended ??= (async () => void (await runAs(owner, undo)))().finally(() => entries.delete(entry))
        return ended
      },
    }
    entries.add(entry)
    return entry.end
  }

  const unwind = async (): Promise<void> => {
    for (const entry of [...entries].reverse()) {
      // A nested scope limits each of its own effects.
      const ending = entry.inner ? entry.end() : within(undoLimitMs, entry.end())
      await ending.catch(error => report(owner, `undo of "${entry.label}"`, error))
    }
  }

  const self: Effects = {
    owner,
    signal: controller.signal,
    get hidden() {
      return hidden || (outer?.hidden ?? false)
    },
    labels: () =>
      [...entries].flatMap(({ label, inner }) =>
        inner ? [label, ...inner.labels().map(nested => `${label} > ${nested}`)] : [label],
      ),
    refuse,
    register(label, start) {
      refuse(label)
      keep(label, start())
    },
    add(label, undo) {
      const end = keep(label, undo)
      if (controller.signal.aborted) {
        void end().catch(error => report(owner, `undo of "${label}"`, error))
        refuse(label)
      }
      return end
    },
    async run(label, start) {
      refuse(label)
      const started = Promise.withResolvers<Stop>()
      // Kept before it starts, so that its place in the order is its own and a close waits for a start under way.
      const end = keep(label, async () => (await started.promise)?.())
      try {
        started.resolve(await runAs(owner, async () => start()))
      } catch (error) {
        started.resolve(undefined)
        await end()
        throw new Error(`"${label}" could not start: ${messageOf(error)}`, { cause: error })
      }
      if (controller.signal.aborted) {
        await end()
        refuse(label)
      }
    },
    child(label) {
      refuse(label)
      const inner = createEffects(owner, report, self)
      const close = inner.close
      const end = keep(label, close, inner)
      return Object.defineProperty(inner, 'close', { value: end })
    },
    hide() {
      hidden = true
    },
    abort() {
      if (controller.signal.aborted) return
      hidden = true
      for (const { inner } of entries) inner?.abort()
      runAs(owner, () => controller.abort())
    },
    close() {
      self.abort()
      closed ??= unwind()
      return closed
    },
  }
  return self
}
