// One verb of a bridge: what comes is checked in shape before anything is done with it.
import { z } from 'zod'

/** `name`: how the author calls it. */
export type Verb = (args: readonly unknown[], name: string) => unknown

/** `route GET /ext/x`, `tap door.admit`. */
function subjectOf(name: string, args: readonly unknown[]): string {
  const [first] = args.filter(each => typeof each === 'string' || (typeof each === 'object' && each !== null))
  const { method, path, id } = Object(first)
  const words = typeof first === 'string' ? [first] : [method, path ?? id]
  // What is longer is contents.
  return [name, ...words.filter(word => typeof word === 'string' && /^[\w./:{}@-]{1,128}$/.test(word))].join(
    ' ',
  )
}

const issueText = ({ path: [at, ...path], message }: z.core.$ZodIssue): string => {
  const said = message.replace(/^Invalid input: (.+), received undefined$/, 'is missing; $1')
  return `${path.join('.') || `argument ${String(at)}`}${said.startsWith('is ') ? '' : ':'} ${said}`
}

export function verb<S extends z.ZodType[]>(
  shape: [...S],
  run: (...args: { [I in keyof S]: z.output<S[I]> }) => unknown,
): Verb {
  const schema = z.tuple(shape as never).rest(z.undefined())
  return (args, name) => {
    const parsed = schema.safeParse(args)
    if (!parsed.success)
      throw new Error(
        `${subjectOf(name, args)}: ${parsed.error.issues.map(issueText).join('; ').slice(0, 500)}`,
      )
    return (run as (...a: unknown[]) => unknown)(...(parsed.data as unknown[]))
  }
}
