// Why sessions end: what each cause means to the client, to the session's record and to its display.
import type { PipelineEnded } from 'svc-host/api/media'
import type { DisconnectReason, Ended } from 'svc-host/api/sessions'
import type { CloseCode } from './channel.ts'

export interface Ending {
  readonly ended: Ended
  readonly reason: DisconnectReason
  /** Told to the client, if it can still hear; null: it closed by itself. */
  readonly close: { readonly code: CloseCode; readonly message: string } | null
  /** The display does not linger. */
  readonly deliberate: boolean
}

const ending = (
  ended: Ended,
  reason: DisconnectReason,
  deliberate: boolean,
  code?: CloseCode,
  message = '',
): Ending => ({ ended, reason, deliberate, close: code ? { code, message } : null })

export const endings = {
  quit: ending('local', 'quit', true),
  clientError: ending('local', 'error', false),
  lost: ending('lost', 'timeout', false, 'idle', 'nothing has come from this device for too long'),
  replaced: ending('lost', 'timeout', false, 'replaced', 'this device has started another session'),
  taken: ending('host_ended', 'error', false, 'replaced', 'another device has taken this host over'),
  stopped: ending('stopped_by_operator', 'error', true, 'stopped', 'the session was stopped on the host'),
  unpaired: ending('stopped_by_operator', 'error', true, 'unpaired', 'this device is not paired any more'),
  expired: ending('stopped_by_operator', 'error', true, 'unpaired', 'the access of this device is over'),
  stopping: ending('host_ended', 'error', false, 'stopping', 'the host is shutting down'),
  displayLost: ending('host_error', 'error', false, 'host-error', 'the display of this session has gone'),
  encoderFailed: ending('host_error', 'error', false, 'host-error', 'the encoder of this session has failed'),
  hostError: ending('host_error', 'error', false, 'host-error', 'the host could not go on with this session'),
} as const

/** The client broke the protocol, in the way that `message` tells. */
export const protocolError = (message: string): Ending =>
  ending('local', 'error', false, 'protocol-error', message)

/** What the end of a pipeline that nobody closed means. */
export const endingOfPipeline = (why: PipelineEnded): Ending => {
  if (why === 'peer-gone') return endings.lost
  if (why === 'peer-bye') return endings.quit
  if (why === 'source-lost') return endings.displayLost
  return why === 'encoder-failed' ? endings.encoderFailed : endings.hostError
}

/** What a client's `close` means. */
export const endingOfClose = (code: string): Ending => (code === 'quit' ? endings.quit : endings.clientError)
