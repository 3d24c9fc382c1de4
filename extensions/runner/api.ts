// The plugin runner's public face: what a script or a plugin package exports, and what it is given.
import type { ApiClient } from 'svc-host/client'
import { event, type Log, token } from 'svc-host/sdk'
import { z } from 'zod'

/** What `main` is given, and a function that a script exports by default. */
export interface UnitContext {
  /** The script's name without its ending, or the package's without `plugin-`. */
  readonly id: string
  /** The API of the host with this unit's own token; closed after `main` has returned and its finalizers have run. */
  readonly client: ApiClient
  /** Aborted when the unit is to end; what has not ended 3 s later is killed. */
  readonly signal: AbortSignal
  /** Lines in the log of the host, under the unit's id. */
  readonly log: Log
  /** A folder of its own that lasts; nothing else can be written to unless it was granted. */
  readonly storageDir: string
  /** Runs `finalizer` when the unit ends, whichever way: last added first, each awaited. */
  onEnd(finalizer: () => void | Promise<void>): void
}

/** Default export of a plugin: it is run again after a failure, and is complete when `main` returns. */
export interface PluginDefinition {
  readonly name: string
  main(context: UnitContext): void | Promise<void>
}
export const definePlugin = (plugin: PluginDefinition): PluginDefinition => plugin

/** The runner was switched on or off, or has started or ended. */
export const runnerChanged = event('runner.changed', z.object({ enabled: z.boolean(), running: z.boolean() }))

/** Its name as a user unit of systemd. */
export const unitName = 'svc-scripting'

/** The text of that unit; `command` starts the runner, program first. */
export const unitFile = (command: readonly string[]): string => `[Unit]
Description=Scripts and plugins of the streaming host
After=svc-host.service

[Service]
ExecStart=${command.map(quoted).join(' ')}
Restart=on-failure
RestartSec=2
# The runner ends its units itself, so that their finalizers run.
KillMode=mixed
TimeoutStopSec=10

[Install]
WantedBy=default.target
`

/** As systemd reads an argument. */
const quoted = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replaceAll('%', '%%').replaceAll('$', '$$$$')}"`

/** The runner's units and how they fare; none while it is not running. */
export interface PluginUnits {
  states(): Promise<readonly { readonly id: string; readonly state: string }[]>
}
export const PluginUnits = token<PluginUnits>('plugin.units', '1.0.0')
