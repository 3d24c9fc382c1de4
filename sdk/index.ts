// The author API: everything that an extension, built-in or not, compiles against.
export { defineCommand, type Command, type CommandContext } from './command.ts'
export { HttpError, isHttpError } from './errors.ts'
export { event, type EventKind, type EventRecord } from './event.ts'
export {
  defineExtension,
  type Context,
  type DocumentFile,
  type Extension,
  type Log,
  type Scope,
} from './extension.ts'
export { hook, type HookPoint } from './hook.ts'
export {
  ApiRoutes,
  CertificateIdentity,
  DescribeHost,
  DeviceRegistry,
  EventBus,
  type Device,
  type ExtensionRecord,
  Extensions,
  type HostIdentity,
  HostInfo,
  PluginTokens,
  sdkVersion,
} from './host.ts'
export { type ManagedProcess, type ProcessSpec, unprivilegedAccount } from './process.ts'
export {
  type Caller,
  type Lanes,
  type Reply,
  reply,
  type Route,
  route,
  type StreamReply,
  streamReply,
} from './route.ts'
export { type Services, type Token, token } from './service.ts'
export { defineUndo, type Undo } from './undo.ts'
