// Finds processes by the kernel's marker in their environment, as the kernel itself has to after a crash.
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The markers of all processes in a journal, oldest first. */
export async function markersIn(configDir: string): Promise<string[]> {
  const text = await readFile(join(configDir, 'journal'), 'utf8')
  return [...text.matchAll(/"marker":"([0-9a-f]{32})"/g)].map(([, marker]) => marker!)
}

/** The processes that carry this marker. */
export const carriers = (marker: string): number[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => environmentOf(pid).includes(`SVC_EFFECT_MARKER=${marker}`))
    .map(Number)

const environmentOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1')
  } catch {
    return ''
  }
}
