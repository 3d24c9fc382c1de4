// The timed script of `--input`: one event on each line, with its time in milliseconds.
import { type InputEvent, StreamError, textEvents } from 'svc-host/stream'
import { keyUsage } from './key-names.ts'

export interface TimedEvents {
  /** After the first frame. */
  readonly atMs: number
  readonly events: readonly InputEvent[]
}

const buttons: Readonly<Record<string, number>> = { left: 1, middle: 2, right: 3, back: 4, forward: 5 }
const tap = (usage: number): InputEvent[] => [
  { type: 'key', usage, down: true },
  { type: 'key', usage, down: false },
]

/** Text with `\n`, `\t` and `\\` written out; line ends and tabs become keys, which every terminal understands. */
export const typed = (text: string): InputEvent[] => {
  const plain = text.replace(/\\(.)/gs, (whole, letter: string) =>
    letter === 'n' ? '\n' : letter === 't' ? '\t' : letter === '\\' ? '\\' : whole,
  )
  return plain
    .split(/(\n|\t)/)
    .flatMap(part => (part === '\n' ? tap(40) : part === '\t' ? tap(43) : part ? textEvents(part) : []))
}

const key = (name: string | undefined): number => {
  const usage = keyUsage(name ?? '')
  if (usage === undefined)
    throw new RangeError(`"${name ?? ''}" is no key: use a name such as KeyA or Enter, or 0x28`)
  return usage
}
const button = (name: string | undefined): number => {
  const number = buttons[name ?? '']
  if (number === undefined)
    throw new RangeError(`"${name ?? ''}" is no button: ${Object.keys(buttons).join(', ')}`)
  return number
}
const number = (text: string | undefined, least: number, most: number): number => {
  const value = Number(text)
  if (text !== undefined && Number.isFinite(value) && value >= least && value <= most) return value
  throw new RangeError(`"${text ?? ''}" is no number from ${least} to ${most}`)
}
const step = (text: string | undefined) => Math.round(number(text, -32768, 32767))
const place = (text: string | undefined) => Math.round(number(text, 0, 1) * 65535)

const verbs: Readonly<Record<string, (words: readonly string[], rest: string) => InputEvent[]>> = {
  text: (_words, rest) => typed(rest),
  key: ([name]) => tap(key(name)),
  'key-down': ([name]) => [{ type: 'key', usage: key(name), down: true }],
  'key-up': ([name]) => [{ type: 'key', usage: key(name), down: false }],
  move: ([dx, dy]) => [{ type: 'pointer-move', dx: step(dx), dy: step(dy) }],
  to: ([x, y]) => [{ type: 'pointer-to', x: place(x), y: place(y) }],
  button: ([name]) => [
    { type: 'button', button: button(name), down: true },
    { type: 'button', button: button(name), down: false },
  ],
  'button-down': ([name]) => [{ type: 'button', button: button(name), down: true }],
  'button-up': ([name]) => [{ type: 'button', button: button(name), down: false }],
  scroll: ([dx, dy]) => [{ type: 'scroll', dx: step(dx), dy: step(dy) }],
  'release-all': () => [{ type: 'release-all' }],
}

/** Reads a script; throws `bad-argument` with the line that is wrong. Sorted by time, equal times as they stand. */
export const parseInputScript = (script: string): TimedEvents[] => {
  const timed = script.split('\n').flatMap((line, i): TimedEvents[] => {
    if (/^\s*(#|$)/.test(line)) return []
    const match = /^\s*(\d+(?:\.\d+)?)\s+(\S+)(?: (.*))?$/.exec(line.replace(/\r$/, ''))
    const [, time, verb = '', rest = ''] = match ?? []
    const read = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined
    if (!time || !read) {
      const known = Object.keys(verbs).join(', ')
      throw new StreamError(
        'bad-argument',
        `line ${i + 1} of the input script is not "MS EVENT …" with one of: ${known}`,
      )
    }
    try {
      return [{ atMs: Number(time), events: read(rest.trim().split(/\s+/), rest) }]
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      throw new StreamError('bad-argument', `line ${i + 1} of the input script: ${error.message}`)
    }
  })
  return timed.sort((a, b) => a.atMs - b.atMs)
}
