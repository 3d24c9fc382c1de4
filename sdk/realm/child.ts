// What the host and a child process of the process realm say to each other: kinds of packets, and what is loaded.

/** From the host: load this; a list of messages; answer at once. */
export const toChild = { open: 1, say: 2, ping: 3 } as const

/** From the child: the module is loaded; a list of messages; an answer; an error that nobody caught; it cannot be loaded. */
export const fromChild = { loaded: 11, say: 12, pong: 13, stray: 14, failed: 15 } as const

export interface ChildLoad {
  /** Path of the main module, as the child sees it. */
  readonly main: string
  readonly env: Readonly<Record<string, string>>
}

/** Bytes of text in one packet to the child. */
export const childLimitBytes = 16 * 1024 * 1024
