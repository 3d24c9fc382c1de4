// A client that this host does not know, or whose access is over: it knocks, and its connection waits for the operator.
import { setTimeout as sleep } from 'node:timers/promises'
import type { KnockAnswer, PairingQueue } from 'svc-host/api/pairing'
import type { Channel } from './channel.ts'
import { ProtocolError } from './messages.ts'

/** Between two messages of a client that waits: it has nothing to say that is urgent. */
const restMs = 100

/** Tells the client why it may not stream. */
const sendAway = (channel: Channel, answer: Exclude<KnockAnswer, 'approved'>): void => {
  if (answer === 'denied') channel.refuse('denied', 'the operator of this host said no')
  else if (answer === 'no-answer') {
    const how = 'this device stays listed for some minutes: try again'
    channel.refuse('no-answer', `the operator has not answered yet; ${how}`)
  } else if (answer === 'replaced') {
    channel.close('replaced', 'this device has knocked again over another connection')
  } else channel.close('stopping', 'the host is shutting down')
}

/** Waits for the operator; true when the device may stream now, otherwise the client has been told why not. */
export const waitForApproval = async (
  channel: Channel,
  name: string,
  queue: PairingQueue,
): Promise<boolean> => {
  const { fingerprint, address } = channel
  const knock = queue.knock({ fingerprint, name, address })
  if ('refused' in knock) {
    if (knock.refused === 'stopping') sendAway(channel, 'stopping')
    else if (knock.refused === 'pace') {
      const why = 'too many new devices knock from this address: wait a moment'
      channel.refuse('pace', why, { retry_after_ms: knock.retryAfterMs })
    } else if (knock.refused === 'full')
      channel.refuse('busy', 'too many devices wait for this host’s operator')
    else {
      const how = 'ask for a PIN that is meant for this device'
      channel.refuse('outside-lan', `from outside its network this host pairs by PIN only: ${how}`)
    }
    return false
  }
  channel.send({ type: 'wait', for: 'approval', timeout_ms: knock.limitMs })
  const answered = new AbortController()
  void knock.answer.then(() => answered.abort())
  try {
    while (!answered.signal.aborted) {
      const message = await channel.next(undefined, answered.signal)
      if (message === 'silent') break
      if (message === 'gone') return false
      if (message.type === 'close') {
        channel.end()
        return false
      }
      if (message.type === 'ping') channel.send({ type: 'pong', id: message.id })
      else if (message.type !== 'pong') throw new ProtocolError(`${message.type} came while waiting`)
      await sleep(restMs)
    }
    const answer = await knock.answer
    if (answer !== 'approved') sendAway(channel, answer)
    return answer === 'approved'
  } finally {
    knock.leave()
  }
}
