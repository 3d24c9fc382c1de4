// Builds the player once, next to other caches, and tells where it is.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const here = dirname(fileURLToPath(import.meta.url))

/**
 * Path of a program built from `<name>.cc`; built when its source has changed. `libraries` are pkg-config's names, or
 * the linker's flag (`-lyuv`) for one that pkg-config does not know.
 */
export async function buildProgram(name: string, libraries: readonly string[], from = here): Promise<string> {
  const source = join(from, `${name}.cc`)
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12)
  const folder = join(here, '../../node_modules/.cache/svc-host')
  const target = join(folder, `${name}-${hash}`)
  if (existsSync(target)) return target
  mkdirSync(folder, { recursive: true })
  const packages = libraries.filter(library => !library.startsWith('-'))
  const found = packages.length ? (await run('pkg-config', ['--cflags', '--libs', ...packages])).stdout : ''
  const flags = [
    ...found.split(/\s+/).filter(Boolean),
    ...libraries.filter(library => library.startsWith('-')),
  ]
  const part = `${target}.${process.pid}`
  await run('g++', ['-std=c++20', '-O2', '-march=x86-64-v2', source, '-o', part, ...flags])
  renameSync(part, target)
  return target
}

export const buildPlayer = () => buildProgram('player', ['xcb', 'xcb-shm'])

export const buildBeep = () => buildProgram('beep', ['xcb', 'libpulse-simple'])
