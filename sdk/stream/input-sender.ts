// Keeps input until the host has acknowledged it, and says what to send when: PROTOCOL.md, section 8.
import { StreamError } from './error.ts'
import { encodeInput, type InputEvent, inputPayload, maxEventsPerDatagram } from './input-event.ts'

/** How often unacknowledged input is sent again, milliseconds. */
export const resendMs = 20
/** Events that may wait for the host's acknowledgement. */
export const maxUnacknowledged = 8192

export interface InputSender {
  /** Numbers an event. Throws `bad-argument`, or `input-overflow` when too much is unacknowledged. */
  add(event: InputEvent): void
  /** The host wants event `next`; what is before it has been applied. Nonsense is ignored. */
  acknowledge(next: number): void
  /** The oldest unacknowledged events as a payload of at most `maxBytes`; undefined when there are none. */
  payload(maxBytes: number): Buffer | undefined
  /** Events not yet acknowledged. */
  readonly waiting: number
}

export const createInputSender = (): InputSender => {
  let first = 0
  let events: Buffer[] = []
  /** Events below this number have been in a payload and can no longer change. */
  let sentBelow = 0
  let lastMove: { dx: number; dy: number } | undefined
  return {
    get waiting() {
      return events.length
    },
    add: event => {
      const encoded = encodeInput(event)
      const last = first + events.length - 1
      // Movements that have not left yet become one: a fast mouse does not fill the queue.
      if (event.type === 'pointer-move' && lastMove && events.length > 0 && last >= sentBelow) {
        const dx = lastMove.dx + event.dx
        const dy = lastMove.dy + event.dy
        if (Math.abs(dx) < 32768 && Math.abs(dy) < 32768) {
          events[events.length - 1] = encodeInput({ type: 'pointer-move', dx, dy })
          lastMove = { dx, dy }
          return
        }
      }
      if (events.length >= maxUnacknowledged) {
        throw new StreamError(
          'input-overflow',
          `the host has not acknowledged ${maxUnacknowledged} input events; wait until it does, or reconnect`,
        )
      }
      events.push(encoded)
      lastMove = event.type === 'pointer-move' ? { dx: event.dx, dy: event.dy } : undefined
    },
    acknowledge: next => {
      if (next <= first || next > first + events.length) return
      events = events.slice(next - first)
      first = next
    },
    payload: maxBytes => {
      let bytes = 5
      let n = 0
      while (n < events.length && n < maxEventsPerDatagram && bytes + events[n]!.length <= maxBytes) {
        bytes += events[n]!.length
        n++
      }
      if (n === 0) return undefined
      sentBelow = Math.max(sentBelow, first + n)
      return inputPayload(first, events.slice(0, n))
    },
  }
}
