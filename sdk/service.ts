// Typed service tokens: what one extension provides and another requires.
import type { z } from 'zod'

/** How one method is called from another realm: async, plain data in and out; without `returns` it answers nothing. */
export interface Method {
  readonly args: readonly z.ZodType[]
  readonly returns?: z.ZodType | undefined
}

/** A description of every method of an interface. */
export type Methods<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => Promise<infer R>
    ? { readonly args: { readonly [I in keyof A]: z.ZodType<A[I]> } } & Returns<R>
    : never
}
// biome-ignore lint/suspicious/noConfusingVoidType: a method that answers nothing is typed so
type Returns<R> = [R] extends [void] ? { readonly returns?: undefined } : { readonly returns: z.ZodType<R> }

/** Names a service and carries its type. Compared by `id`, never by identity. */
export interface Token<T> {
  /** `noun.noun`, for example `display.pool`. */
  readonly id: string
  /** Semantic version of the interface: minor when a method is added, major when one changes. */
  readonly version: string
  /** What lets it cross into other realms; without, it stays in the realm of its provider. */
  readonly methods?: Readonly<Record<string, Method>>
  /** Phantom: exists in types only. */
  readonly __service?: T
}

/**
 * Declares a service token; the owner's manifest `provides` must name the same id and version. With its methods described
 * it can be provided and used in every realm.
 */
export const token = <T>(id: string, version: string, methods?: Methods<T>): Token<T> =>
  methods ? { id, version, methods: methods as Readonly<Record<string, Method>> } : { id, version }

/** The services behind a record of tokens, under the same names. */
export type Services<D extends Record<string, Token<unknown>>> = {
  readonly [K in keyof D]: D[K] extends Token<infer T> ? T : never
}
