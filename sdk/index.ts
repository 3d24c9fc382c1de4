// The author API: everything that an extension, built-in or not, compiles against.
export { type Command, type CommandContext, defineCommand } from './command.ts'
export { HttpError, isHttpError, isPermissionError, PermissionError } from './errors.ts'
export { type EventKind, type EventRecord, event } from './event.ts'
export {
  type Context,
  type DocumentFile,
  defineExtension,
  type Extension,
  type KeyValueStorage,
  type Log,
  type Scope,
} from './extension.ts'
export { type HookPoint, hook } from './hook.ts'
export {
  ApiRoutes,
  CertificateIdentity,
  DescribeHost,
  type Device,
  DeviceRegistry,
  EventBus,
  type Examined,
  type ExtensionConfig,
  ExtensionRecord,
  Extensions,
  ExtensionsChanged,
  type HostIdentity,
  HostInfo,
  HostLog,
  HostStarted,
  HostStopping,
  type LogRecord,
  PluginTokens,
  sdkVersion,
} from './host.ts'
export type { Executed, FileInfo, Files, Outside } from './outside.ts'
export {
  beyond,
  covers,
  explainPermission,
  hostAndPort,
  type Permission,
  type PermissionDecision,
  type PermissionKind,
  parsePermission,
} from './permission.ts'
export {
  type Guest,
  type GuestProcess,
  type Jail,
  type ManagedProcess,
  ProcessRealm,
  type ProcessSpec,
  unprivilegedAccount,
} from './process.ts'
export {
  type Caller,
  type Lanes,
  type Reply,
  type Route,
  reply,
  route,
  type StreamReply,
  streamReply,
} from './route.ts'
export { type Method, type Methods, type Services, type Token, token } from './service.ts'
export { defineUndo, type Undo } from './undo.ts'
