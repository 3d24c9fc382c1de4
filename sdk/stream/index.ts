// The streaming client: pairs with a host, streams from it, sends input to it. It speaks svc/1 (PROTOCOL.md of the
// native plane) in plain TypeScript on Node's own modules and @noble/curves, without a native part.
//
//   const identity = await loadIdentity(dir)
//   const connection = await connect({ host, identity, name: 'Sofa', intent: 'pair' })
//   await connection.pair('1234')
//   const session = await connection.start({ mode: { width: 1280, height: 720, hz: 60 } })
//   for await (const frame of session.frames) decoder.write(frame.data)
//   const { code } = await session.ended
//
// Without a PIN: connect with { intent: 'stream', knock: true }, and `start` waits for the host's operator.

export type { AudioPacket } from './audio-assembler.ts'
export {
  addressOf,
  type Connection,
  type ConnectOptions,
  connect,
  grantBits,
  type StartOptions,
} from './connection.ts'
export { defaultPort } from './control.ts'
export {
  type CloseCode,
  type LocalCode,
  type RefusalReason,
  StreamError,
  type StreamErrorCode,
} from './error.ts'
export type { VideoFrame } from './frame-assembler.ts'
export type { AudioFormat, Cursor, HostInfo, Mode, Started, VideoCodec } from './host-message.ts'
export { fingerprintOf, type Identity, loadIdentity } from './identity.ts'
export { type InputEvent, textEvents } from './input-event.ts'
export type { KnownHost, KnownHosts } from './known-hosts.ts'
export { type ReconnectOptions, stream } from './reconnect.ts'
export type { SessionEnd, SessionListener, StreamSession } from './session-face.ts'
export type { SessionStats } from './session-stats.ts'
