// The undo module of an extension with durable effects: loaded without the extension, free of side effects.

/** How one kind of durable effect is taken back. */
export interface Undo<R> {
  /** Takes the effect back; must succeed when there is nothing left to take back. */
  undo(record: R): void | Promise<void>
  /** True: the effect is kept for the extension's next start to take over; otherwise it is undone. */
  adopt?(record: R): boolean | Promise<boolean>
}

/** Default export of `undo.ts`: the kinds of durable effects of this extension. */
// biome-ignore lint/suspicious/noExplicitAny: each kind has a record of its own
export const defineUndo = <K extends Record<string, Undo<any>>>(kinds: K): K => kinds
