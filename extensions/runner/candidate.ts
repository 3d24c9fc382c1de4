// What was found that may run, before anybody has looked at what was granted.
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface Candidate {
  readonly id: string
  readonly kind: 'script' | 'package'
  /** The module to run. */
  readonly file: string
  /** The package's folder; a script has its file alone. */
  readonly folder?: string
  readonly version?: string
  /** What its files were when it was installed. */
  readonly seal?: string
  /** The permissions that it asks for. */
  readonly asked: readonly string[]
}

/** What cannot run, and why, as a sentence. */
export interface Refusal {
  readonly id: string
  readonly kind: 'script' | 'package'
  readonly file: string
  readonly why: string
}

/** The first of these that everybody may write to; what it holds is then anybody's. */
export async function worldWritable(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    const { mode } = await stat(path)
    if (mode & 0o002) return path
  }
  return undefined
}

/** A module and the folder that it lies in. */
export const withFolder = (file: string): string[] => [dirname(file), file]
