// What commands that drive the host have in common: the JSON envelope, exit codes, refusals as sentences, tables.

import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'

/** Exit codes (wire-decisions, "Command-line entry points"). */
export const exitCode = { done: 0, refused: 1, usage: 2, unreachable: 3, pinMismatch: 4 } as const

/** What a verb has found: `data` for `--json`, `text` for people. */
export interface Answer {
  readonly data: unknown
  readonly text: string
  /** Default 0. */
  readonly code?: number
}

/** A command line that cannot be carried out as it stands; exit code 2. */
export class UsageError extends Error {
  readonly code = 'usage'
}

/** Connects, does the work and prints its answer as was asked. */
export type Verb = (work: (host: ApiClient) => Promise<Answer>) => Promise<void>

/** The parts of commander's parser that are used here. */
interface Parser {
  exitOverride(): unknown
  configureOutput(output: { writeOut(text: string): void; writeErr(text: string): void }): unknown
  parseAsync(argv: readonly string[], options: { from: 'user' }): Promise<unknown>
}

/** True: `--json` is among the arguments. */
export const wantsJson = (argv: readonly string[]): boolean =>
  argv.slice(0, argv.includes('--') ? argv.indexOf('--') : undefined).includes('--json')

/**
 * Parses and runs; `declare` adds the verbs to `parser`. Answers go to standard output, with `--json` refusals too;
 * otherwise these go to standard error as a sentence. Returns the exit code and never throws.
 */
export async function runVerbs<P extends Parser>(
  context: CommandContext,
  parser: P,
  declare: (parser: P, verb: Verb) => void,
): Promise<number> {
  const json = wantsJson(context.argv)
  const print = (envelope: object): unknown => context.out.write(`${JSON.stringify({ v: 1, ...envelope })}\n`)
  let code: number = exitCode.done
  let complaint = ''
  // Before the verbs are declared, since each takes these over from its parent.
  parser.exitOverride()
  parser.configureOutput({
    writeOut: text => void context.out.write(text),
    writeErr: text => {
      complaint += text
    },
  })
  declare(parser, async work => {
    const answer = await work(await context.connect())
    if (json) print({ data: answer.data })
    else context.out.write(answer.text.endsWith('\n') ? answer.text : `${answer.text}\n`)
    code = answer.code ?? exitCode.done
  })
  try {
    await parser.parseAsync(context.argv, { from: 'user' })
    return code
  } catch (error) {
    const failure = explain(error, complaint)
    if (failure.code === exitCode.done) return exitCode.done
    if (json) print({ error: { code: failure.name, message: failure.message } })
    else context.err.write(`${failure.message}\n`)
    return failure.code
  }
}

interface Failure {
  readonly name: string
  readonly message: string
  readonly code: number
}

function explain(error: unknown, complaint: string): Failure {
  const { code, exitCode: exit, message } = error as { code?: unknown; exitCode?: number; message?: string }
  if (typeof code === 'string' && code.startsWith('commander.')) {
    const text = (complaint || message || '').trim().replace(/^error: /, '')
    return { name: 'usage', message: text, code: exit === 0 ? exitCode.done : exitCode.usage }
  }
  if (error instanceof UsageError) return { name: 'usage', message: error.message, code: exitCode.usage }
  if (!(error instanceof ApiError))
    return { name: 'internal', message: message ?? String(error), code: exitCode.refused }
  const { pinMismatch, unreachable, refused } = exitCode
  const exits: Partial<Record<string, number>> = { unreachable, 'pin-mismatch': pinMismatch }
  return { name: error.code, message: sentence(error), code: exits[error.code] ?? refused }
}

/** A route that is not there belongs to an extension that is not on. */
const sentence = (error: ApiError): string =>
  isMissingRoute(error)
    ? 'the extension of the host that answers this is not on; "svc-host plugins list" shows why'
    : error.message

/** True: the host has no such route; false for a thing that was not found. */
export const isMissingRoute = (error: unknown): boolean =>
  error instanceof ApiError && error.status === 404 && error.message === 'route not found'

/** What `request` answers, or `fallback` where the extension that would answer is off. */
export const orElse = async <T>(request: Promise<T>, fallback: T): Promise<T> => {
  try {
    return await request
  } catch (error) {
    if (isMissingRoute(error)) return fallback
    throw error
  }
}

/** Text from elsewhere without what a terminal would take for commands. */
export const plain = (text: string): string =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')

export type Colour = 'green' | 'yellow' | 'red' | 'dim' | 'bold'
const colourCodes: Record<Colour, number> = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 }

/** A cell of a table; its colour shows on a terminal only. */
export type Cell = string | { readonly text: string; readonly colour: Colour }

const isTerminal = (out: NodeJS.WritableStream): out is NodeJS.WriteStream =>
  (out as Partial<NodeJS.WriteStream>).isTTY === true

/** Paints text where `out` is a terminal that has colours. */
export const paint = (out: NodeJS.WritableStream, colour: Colour, text: string): string =>
  isTerminal(out) && !process.env['NO_COLOR'] ? `\u001b[${colourCodes[colour]}m${text}\u001b[0m` : text

/** Columns under their heads; the last one is broken to the width of the terminal. */
export function table(
  out: NodeJS.WritableStream,
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
): string {
  const textOf = (cell: Cell): string => plain(typeof cell === 'string' ? cell : cell.text)
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map(row => textOf(row[i] ?? '').length)))
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0)
  const room = isTerminal(out) ? Math.max(20, out.columns - before) : Number.POSITIVE_INFINITY
  const line = (cells: readonly Cell[]): string =>
    cells
      .map((cell, i) => {
        const last = i === head.length - 1
        const text = last ? wrap(textOf(cell), room, before) : textOf(cell).padEnd(widths[i]!)
        return typeof cell === 'string' ? text : paint(out, cell.colour, text)
      })
      .join('  ')
      .trimEnd()
  return [line(head.map(text => ({ text, colour: 'dim' as const }))), ...rows.map(line)].join('\n')
}

function wrap(text: string, room: number, indent: number): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1)!
    if (last === '') lines[lines.length - 1] = word
    else if (last.length + word.length < room) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines.join(`\n${' '.repeat(indent)}`)
}
