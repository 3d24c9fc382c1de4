// One verb of a bridge: what comes is checked in shape before anything is done with it.
import { z } from 'zod'

export type Verb = (args: readonly unknown[]) => unknown

export function verb<S extends z.ZodType[]>(
  shape: [...S],
  run: (...args: { [I in keyof S]: z.output<S[I]> }) => unknown,
): Verb {
  const schema = z.tuple(shape as never).rest(z.undefined())
  return args => {
    const parsed = schema.safeParse(args)
    if (!parsed.success)
      throw new Error(`what was given does not fit: ${z.prettifyError(parsed.error).slice(0, 500)}`)
    return (run as (...a: unknown[]) => unknown)(...(parsed.data as unknown[]))
  }
}
