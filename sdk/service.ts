// Typed service tokens: what one extension provides and another requires.

/** Names a service and carries its type. Compared by `id`, never by identity. */
export interface Token<T> {
  /** `noun.noun`, for example `display.pool`. */
  readonly id: string
  /** Semantic version of the interface: minor when a method is added, major when one changes. */
  readonly version: string
  /** Phantom: exists in types only. */
  readonly __service?: T
}

/** Declares a service token; the owner's manifest `provides` must name the same id and version. */
export const token = <T>(id: string, version: string): Token<T> => ({ id, version })

/** The services behind a record of tokens, under the same names. */
export type Services<D extends Record<string, Token<unknown>>> = {
  readonly [K in keyof D]: D[K] extends Token<infer T> ? T : never
}
