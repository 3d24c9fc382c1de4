// Looks into an extension's folder without running anything of it.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Examined } from 'svc-host/sdk'
import { readExtension, sourceFile } from './discover.ts'
import { messageOf } from './errors.ts'
import { asksFor } from './permissions.ts'

/** `sha512-` and base64 over the sorted paths, lengths and contents; rejects where there is more than files and folders. */
export async function sealOf(folder: string): Promise<string> {
  const hash = createHash('sha512')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files: string[] = []
  for (const entry of entries) {
    const path = relative(folder, join(entry.parentPath, entry.name))
    if (entry.isFile()) files.push(path)
    else if (!entry.isDirectory()) throw new Error(`${path} is neither a file nor a folder`)
  }
  for (const path of files.sort()) {
    const content = await readFile(join(folder, path))
    hash.update(`${path}\0${content.length}\0`).update(content)
  }
  return `sha512-${hash.digest('base64')}`
}

/** Rejects when the folder does not hold what it held when it was sealed. */
export async function checkSeal(folder: string, seal: string): Promise<void> {
  const now = await sealOf(folder).catch(messageOf)
  if (now === seal) return
  const what = now.startsWith('sha512-') ? 'its files are not those that were installed' : now
  throw new Error(`${what} (${folder}); remove it and install it again`)
}

/** What the manifest in a folder says, whether this host can run it, and the seal of it all. */
export async function examine(folder: string): Promise<Examined> {
  const seal = await sealOf(folder)
  const { problem, manifest, undoFile } = await readExtension(folder, undefined, false)
  const { id, version, title, realm, platforms, main } = manifest ?? {}
  const permissions = manifest && asksFor(manifest)
  return {
    ...(manifest && {
      manifest: { id, version, title, realm, platforms, permissions } as Examined['manifest'],
    }),
    ...(main !== undefined && { main: relative(folder, sourceFile(folder, main)) }),
    ...(undoFile !== undefined && { undo: relative(folder, undoFile) }),
    problem: problem ?? null,
    seal,
  }
}
