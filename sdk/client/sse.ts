// Server-sent events, parsed as the HTML standard says: any line ending, comments, chunks split anywhere.

export interface ServerSentEvent {
  /** The event's name; `message` where the stream names none. */
  readonly event: string
  /** The last id seen so far on the stream; null before the first. */
  readonly id: string | null
  readonly data: string
}

/** A frame beyond this many characters ends the stream with an error. */
const MAX_FRAME = 4 * 1024 * 1024

/** Parses a byte stream; a frame that the end cuts off is dropped. */
export async function* parseEventStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  // Removes a byte order mark, and keeps characters that two chunks share.
  const decoder = new TextDecoder()
  let rest = ''
  let event = ''
  let id: string | null = null
  let data: string[] = []
  let size = 0
  for await (const chunk of source) {
    rest += decoder.decode(chunk, { stream: true })
    // A CR at the very end may be the first half of CRLF: wait for what follows.
    const lines = rest.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    for (const line of lines) {
      size += line.length
      if (line === '') {
        if (data.length) yield { event: event || 'message', id, data: data.join('\n') }
        event = ''
        data = []
        size = 0
        continue
      }
      const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
      if (field === 'event') event = value
      else if (field === 'data') data.push(value)
      else if (field === 'id' && !value.includes('\0')) id = value
    }
    if (size + rest.length > MAX_FRAME) throw new Error('the event stream sends a frame of more than 4 MiB')
  }
}
