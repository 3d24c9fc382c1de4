// What an extension may do outside the host, as far as its permissions go.

export interface FileInfo {
  /** `other`: neither, such as a link in a list, a device or a pipe; those cannot be read. */
  readonly kind: 'file' | 'folder' | 'other'
  readonly bytes: number
  /** Unix milliseconds. */
  readonly modifiedMs: number
}

/**
 * Files by absolute path or `~/…`, at most 4 MiB each. Links are followed to where `read:` or `write:` was granted as well,
 * and never into the host's own settings. Rejects with a `PermissionError`, or an error with a `code` such as `ENOENT`.
 */
export interface Files {
  read(path: string): Promise<Uint8Array>
  /** As UTF-8. */
  readText(path: string): Promise<string>
  /** Replaces the file as a whole, or not at all; its folder must be there. A link is replaced, not followed. */
  write(path: string, data: string | Uint8Array): Promise<void>
  /** What lies in a folder, at most 10,000 entries, in no order. */
  list(folder: string): Promise<readonly { readonly name: string; readonly kind: FileInfo['kind'] }[]>
  /** Undefined: there is none. */
  stat(path: string): Promise<FileInfo | undefined>
  /** A file, or a folder that is empty. */
  remove(path: string): Promise<void>
  /** With those above it; fine where it is there already. */
  makeFolder(path: string): Promise<void>
}

export interface Outside {
  readonly files: Files
  /**
   * Runs a command line that `exec:` was granted for, without a shell and without rights: each `{name}` becomes one argument
   * or part of one, and no option. At most 30 s and 1 MiB of output, else it is ended and this rejects.
   */
  exec(template: string, values?: Readonly<Record<string, string>>): Promise<Executed>
}

export interface Executed {
  /** Exit code; -1: a signal ended it. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}
