// Commands that an extension adds to the `svc-host` command line.
import type { ApiClient } from './client/index.ts'
import type { Examined } from './host.ts'
import type { Jail, ProcessSpec } from './process.ts'

export interface CommandContext {
  /** Arguments after the command's name. */
  readonly argv: readonly string[]
  readonly out: NodeJS.WritableStream
  readonly err: NodeJS.WritableStream
  /** The config folder. */
  readonly configDir: string
  readonly version: string
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
  /** Opens the running host's API over loopback with the admin token, certificate pinned. */
  connect(): Promise<ApiClient>
  /** Looks into an extension's folder without running anything of it. */
  examine(folder: string): Promise<Examined>
  /** The command line of a process behind walls, to be spawned as it stands; rejects where walls cannot be had. */
  jailed(
    spec: Pick<ProcessSpec, 'command' | 'args' | 'cwd'> & { readonly jail: Jail },
  ): Promise<readonly string[]>
}

/** A command's module default-exports this; `run` returns the exit code. */
export interface Command {
  run(context: CommandContext): Promise<number>
}
export const defineCommand = (command: Command): Command => command
