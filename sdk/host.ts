// Services that the kernel itself offers, and those that it asks for, as ordinary tokens.
import { z } from 'zod'
import { type EventRecord, event } from './event.ts'
import { hook } from './hook.ts'
import type { PermissionDecision } from './permission.ts'
import type { Route } from './route.ts'
import { token } from './service.ts'

/** Version of the author API; the manifest's `sdk` is a range of it. */
export const sdkVersion = '1.0.0'

/** All events of the host: the ring and what comes after it. */
export interface EventBus {
  /** Newest sequence number; 0 before the first event. */
  newest(): number
  /** Events after `seq` that the ring still holds, oldest first; `dropped`: some after `seq` were evicted. */
  replay(seq: number): { events: readonly EventRecord[]; dropped: boolean }
  /** Calls `listener` for each later event, in order; returns the way to stop it. */
  subscribe(listener: (event: EventRecord) => void): () => void
}
export const EventBus = token<EventBus>('kernel.bus', '1.0.0')

/** One line of the host's log; secrets are masked. */
export interface LogRecord {
  /** From 1 in each process, rises by 1. */
  readonly seq: number
  /** Unix milliseconds. */
  readonly tsMs: number
  readonly level: 'error' | 'warn' | 'info' | 'debug'
  readonly extension: string
  readonly message: string
  /** What was logged beside the message; an error under `err` is `{ type, message, stack }`. */
  readonly fields: Readonly<Record<string, unknown>>
}
/** The newest 4096 lines of the log at debug level and above, whatever level the host prints. */
export interface HostLog {
  /** Number of the newest line; 0 before the first. */
  newest(): number
  /** At most `limit` kept lines after `after`, oldest first; a first one beyond `after + 1` says that some are gone. */
  read(after: number, limit: number): readonly LogRecord[]
}
export const HostLog = token<HostLog>('kernel.log', '1.0.0')

/** The live routes with their owners and their full paths (`/api/v1/…`). */
export interface ApiRoutes {
  list(): readonly { readonly owner: string; readonly url: string; readonly route: Route }[]
}
export const ApiRoutes = token<ApiRoutes>('kernel.routes', '2.0.0')

/** One extension as `GET /extensions` shows it (wire-decisions, "Extensions"). */
export const ExtensionRecord = z
  .object({
    id: z.string(),
    title: z.string(),
    version: z.string(),
    realm: z.enum(['kernel', 'isolate', 'process']),
    builtin: z.boolean(),
    enabled: z.boolean(),
    state: z.enum(['off', 'waiting', 'starting', 'on', 'stopping', 'failed', 'quarantined']),
    why: z.string().nullable().describe('a sentence for every state that is not on'),
    provides: z.array(z.string()).describe('services, as name@version'),
    requires: z.array(z.string()).describe('services, as name@range'),
    effects: z.array(z.string()).describe('labels of what it has registered'),
    errors: z.number().int().describe('since the start of the host'),
    restarts: z.number().int().describe('because its isolate or process ended, since the start'),
    cpu_ms: z.number().int().nullable().describe('null: it runs in the host’s own process'),
    memory_bytes: z
      .number()
      .int()
      .nullable()
      .describe('of its isolate’s heap, or of its process and all that this started; null: likewise'),
    budget: z
      .enum(['ok', 'slowed'])
      .nullable()
      .describe('slowed: it went beyond a budget and is given up if it goes on; null: likewise'),
    taps: z
      .array(
        z.object({
          hook: z.string(),
          calls: z.number().int(),
          p50_ms: z.number().nullable().describe('null before the first call'),
          p99_ms: z.number().nullable(),
        }),
      )
      .describe('where it decides or adds at hook points, and how long it takes there'),
    permissions: z
      .array(z.object({ permission: z.string(), state: z.enum(['granted', 'refused', 'asked']) }))
      .describe('what it asks for; asked: nobody has decided, and it waits. Empty where nothing is checked'),
  })
  .meta({ id: 'Extension' })
export type ExtensionRecord = z.output<typeof ExtensionRecord>

/** What an extension's folder holds, as far as can be told without running it. */
export interface Examined {
  /** Absent where the manifest cannot be read. */
  readonly manifest?: Pick<ExtensionRecord, 'id' | 'version' | 'title' | 'realm'> & {
    readonly platforms: readonly string[]
    /** All that it asks for, the services it names among it. */
    readonly permissions: readonly string[]
  }
  /** Paths in the folder: the main module, and the undo module where there is one. */
  readonly main?: string
  readonly undo?: string
  /** Why this host cannot run it, as a sentence. */
  readonly problem: string | null
  /** `sha512-…` over all its files; an installed one starts only while this is what the ledger says. */
  readonly seal: string
}
/** The config of one extension: what is stored, and what may be. */
export interface ExtensionConfig {
  /** What its file holds, with keys that nobody reads; empty where there is none. */
  readonly stored: Readonly<Record<string, unknown>>
  /** What a flag, the environment or `host.env` sets over it. */
  readonly overrides: readonly { at: readonly string[]; value: unknown; source: string }[]
  /** JSON Schema of what it takes; null: not known. */
  readonly schema: object | null
  /** Why the file cannot be read or the schema is not known, as a sentence. */
  readonly problem: string | null
}
export interface Extensions {
  list(): readonly ExtensionRecord[]
  /**
   * Switches one on or off, stores the choice and resolves when the change is done. One that is on already starts anew
   * when its config file has changed.
   */
  enable(id: string, enabled: boolean): Promise<ExtensionRecord>
  /** Looks at the folders again: what is new starts, what has gone leaves, what has another version is replaced. */
  reload(): Promise<readonly ExtensionRecord[]>
  examine(folder: string): Promise<Examined>
  /** Whether an installed one may run in the host's own process, where nothing checks what it does; from its next start. */
  trust(id: string, trusted: boolean): Promise<void>
  /**
   * Grants and refuses permissions of an installed one, stores it, and starts it (again). A text given here replaces
   * the decisions on what it covers. Rejects with 400 for a text that is none, 404, or 409 for a built-in.
   */
  permit(id: string, decision: Partial<PermissionDecision>): Promise<ExtensionRecord>
  /** What was decided about the permissions of one, whether or not it is here. */
  decided(id: string): PermissionDecision
  /** Replaces all that was decided about one, whether or not it is here; nothing is started again. */
  decide(id: string, decision: PermissionDecision): Promise<void>
  /** Drops what was decided about one that is no longer here: switched off, trusted, permissions, failed starts. */
  forget(id: string): Promise<void>
  /** What is not on is loaded for this, without its setup, to ask what it takes. */
  config(id: string): Promise<ExtensionConfig>
  /**
   * Stores what `edit` makes of the config as it is, and restarts the extension with it; the record says how it fares. What
   * does not fit is refused with 422 and its path, what cannot be checked now with 409, and then nothing has changed.
   */
  configure(
    id: string,
    edit: (now: ExtensionConfig) => Readonly<Record<string, unknown>>,
  ): Promise<ExtensionRecord>
  /** How many of its durable effects have not been taken back. */
  owed(id: string): number
}
export const Extensions = token<Extensions>('kernel.extensions', '1.2.0')

/** The host's TLS identity: one self-signed certificate for the API and the native plane. */
export interface HostIdentity {
  readonly certificatePem: string
  readonly privateKeyPem: string
  /** SHA-256 of the certificate's DER, 64 lowercase hex characters. */
  readonly fingerprint: string
}
export const CertificateIdentity = token<HostIdentity>('kernel.identity', '1.0.0')

/** Facts about this process. */
export interface HostInfo {
  readonly version: string
  readonly configDir: string
  /** Port of the management API. */
  readonly mgmtPort: number
  /** Epoch of `performance.now`-like uptime: Unix milliseconds of the start. */
  readonly startedUnixMs: number
}
export const HostInfo = token<HostInfo>('kernel.host', '1.0.0')

/** A paired device as the lanes see it. */
export interface Device {
  readonly fingerprint: string
  /** Bits of wire-decisions "Grants". */
  readonly grants: number
}
/** Who is paired; with no provider the device lane admits nobody. */
export interface DeviceRegistry {
  /** The device with this certificate fingerprint, if it is paired and its access is not over. */
  byFingerprint(fingerprint: string): Promise<Device | undefined>
  /** The device behind a device token, likewise. */
  byToken(token: string): Promise<Device | undefined>
}
export const DeviceRegistry = token<DeviceRegistry>('device.registry', '1.0.0')

/** Whose plugin token a bearer is; with no provider the plugin lane admits nobody. */
export interface PluginTokens {
  /**
   * `{ id: null }`: the runner's token; `{ id }`: that plugin's own; undefined: neither. Compares in constant time.
   * What an extension may is the operator's decision; `permissions` says it of a plugin that is none.
   */
  resolve(bearer: string): Promise<{ id: string | null; permissions?: readonly string[] } | undefined>
}
export const PluginTokens = token<PluginTokens>('plugin.tokens', '1.1.0')

/** Facts about this host that its `host.started` event carries beside `version`; each tap adds its own. */
export const DescribeHost = hook.waterfall<Readonly<Record<string, unknown>>>('host.describe', {
  onFailure: 'skip',
})

/** The kernel's own events. `host.stopping` is told before anything is taken down. */
export const HostStarted = event('host.started', z.looseObject({ version: z.string() }))
export const HostStopping = event('host.stopping', z.object({}))
export const ExtensionsChanged = event('extensions.changed', z.object({ id: z.string(), state: z.string() }))
