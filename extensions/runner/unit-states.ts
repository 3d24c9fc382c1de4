// How each unit fares, `plugin-run/units.json`: written by the runner, read by the host while there is a runner.
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { UnitRecord } from './schema.ts'
import { replace } from './unit-tokens.ts'

const gatherMs = 100
const Records = z.array(UnitRecord)
const pathOf = (configDir: string): string => join(configDir, 'plugin-run', 'units.json')

/** Unreadable: none. */
export async function readUnitStates(configDir: string): Promise<UnitRecord[]> {
  try {
    return Records.parse(JSON.parse(await readFile(pathOf(configDir), 'utf8')))
  } catch {
    return []
  }
}

export interface UnitStates {
  /** Something has changed; written soon, several changes at once. */
  touch(): void
  /** Removes the file. */
  close(): Promise<void>
}
export function createUnitStates(configDir: string, list: () => readonly UnitRecord[]): UnitStates {
  let timer: NodeJS.Timeout | undefined
  let written = Promise.resolve()
  const write = (): void => {
    timer = undefined
    const text = `${JSON.stringify(list(), null, 2)}\n`
    // A full disk is no reason to end what runs.
    written = written.then(() => replace(pathOf(configDir), text)).catch(() => {})
  }
  return {
    touch() {
      timer ??= setTimeout(write, gatherMs)
    },
    async close() {
      clearTimeout(timer)
      await written
      await rm(pathOf(configDir), { force: true })
    },
  }
}
