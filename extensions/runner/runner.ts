// The plugin runner: follows what there is to run, keeps each unit in a process of its own, and ends them all together.
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CommandContext } from 'svc-host/sdk'
import { type BackoffOptions, usualBackoff } from './backoff.ts'
import type { Refusal } from './candidate.ts'
import { takeRunnerLock } from './holder.ts'
import { createHostLink } from './host-link.ts'
import { launch } from './launch.ts'
import { createGate, type Level } from './lines.ts'
import { createLogBatches } from './log-batches.ts'
import { RunnerChoice } from './schema.ts'
import { type Supervised, supervise } from './supervise.ts'
import { createUnitStates } from './unit-states.ts'
import { syncUnitTokens } from './unit-tokens.ts'
import { findUnits, type Places, stampOfAll, type Unit } from './units.ts'

export interface RunnerOptions extends Places, Pick<CommandContext, 'jailed' | 'examine' | 'signal'> {
  /** Told every line as well, such as a terminal. */
  print(level: Level, source: string, text: string): void
  readonly backoff?: BackoffOptions
  /** How often it looks for units that have come, changed or gone; default 1000. */
  readonly lookMs?: number
  /** How long a unit may take to end; default 3000. */
  readonly graceMs?: number
  /** What each may have in memory; default 512. */
  readonly memoryMb?: number
}

/** A unit may ask for what is refused as fast as it can. */
const notesPerSecond = 10

interface Running {
  readonly unit: Unit
  readonly life: Supervised
}

/** What a unit may call: a script that asks for nothing of the API has all that plugins may call. */
const apiOf = ({ kind, granted }: Unit): string[] => {
  const api = granted.filter(each => each.startsWith('api:'))
  return kind === 'script' && api.length === 0 ? ['api:*'] : api
}

/** Longest path of a folder for socket files, whose own paths the system keeps below 108. */
const folderLength = 85

/** A folder for socket files, closed to everybody else. */
async function makeSocketsDir(configDir: string): Promise<string> {
  const folder = join(configDir, 'plugin-run', 'sockets')
  if (folder.length > folderLength) return mkdtemp(join(tmpdir(), 'svc-runner-'))
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { mode: 0o700 })
  return folder
}

/** Runs until `signal` is aborted and everything has ended. Rejects when another runner has this config folder. */
export async function runUnits(options: RunnerOptions): Promise<void> {
  const {
    configDir,
    signal,
    jailed,
    examine,
    print,
    backoff = usualBackoff,
    lookMs = 1000,
    graceMs = 3000,
  } = options
  const release = await takeRunnerLock(configDir)
  const socketsDir = await makeSocketsDir(configDir)
  const running = new Map<string, Running>()
  const told = new Set<string>()
  let refused: readonly Refusal[] = []
  const host = createHostLink(configDir)
  const batches = createLogBatches(host.send)
  const states = createUnitStates(configDir, () => [
    ...[...running.values()].map(({ unit: { id, kind }, life }) => ({ id, kind, ...life.standing })),
    ...refused.map(({ id, kind, why }) => ({ id, kind, state: 'refused' as const, why, restarts: 0 })),
  ])
  const say = (level: Level, source: string, msg: string): void => {
    print(level, source, msg)
    batches.add({ ts_ms: Date.now(), level, source, msg })
  }

  const isEnabled = async (): Promise<boolean> => {
    const text = await readFile(join(configDir, 'runner.json'), 'utf8').catch(() => '{}')
    try {
      return RunnerChoice.parse(JSON.parse(text)).enabled ?? true
    } catch {
      return true
    }
  }

  /** A refusal is told once, and again when it has become another. */
  const tellRefusals = (refusals: readonly Refusal[]): void => {
    const now = new Set(refusals.map(({ id, file, why }) => `${id} is not run: ${why} (${file})`))
    for (const text of now) if (!told.has(text)) say('ERROR', 'runner', text)
    told.clear()
    for (const text of now) told.add(text)
    refused = refusals
    states.touch()
  }

  const checkSeal = async ({ folder, seal }: Unit): Promise<void> => {
    if (folder === undefined || seal === undefined) return
    if ((await examine(folder)).seal !== seal)
      throw new Error(
        `its files are not those that were installed (${folder}); remove it and install it again`,
      )
  }

  const begin = (unit: Unit, token: string): Running => {
    const { id } = unit
    const gate = createGate(
      notesPerSecond,
      () => performance.now(),
      count => say('WARN', id, `${count} more refusals within a second`),
    )
    const note = (text: string): void => {
      if (gate.isOpen()) say('WARN', id, text)
    }
    const life = supervise({
      id,
      backoff,
      graceMs,
      say: (level, text) => say(level, id, text),
      onChange: states.touch,
      async start() {
        await checkSeal(unit)
        return launch(unit, token, { configDir, jailed, socketsDir, memoryMb: options.memoryMb, note })
      },
    })
    return { unit, life }
  }

  /** Ends what has gone or changed, all at once, and starts what has come or changed. */
  const follow = async (): Promise<void> => {
    const { units: found, refusals } = await findUnits(options)
    tellRefusals(refusals)
    const units = (await isEnabled()) ? found : []
    const wanted = new Map(units.map(unit => [unit.id, unit]))
    const leaving = [...running.values()].filter(
      ({ unit }) => wanted.get(unit.id)?.revision !== unit.revision,
    )
    for (const { unit } of leaving) running.delete(unit.id)
    await Promise.all(leaving.map(({ life }) => life.stop()))
    const tokens = await syncUnitTokens(
      configDir,
      units.map(unit => ({ id: unit.id, permissions: apiOf(unit) })),
    )
    for (const unit of units)
      if (!running.has(unit.id) && !signal.aborted) running.set(unit.id, begin(unit, tokens.get(unit.id)!))
  }

  /** A script that finds no host would have run in vain, and never again. */
  const waitForHost = async (): Promise<void> => {
    for (let isTold = false; !signal.aborted && !(await host.isThere()); isTold = true) {
      if (!isTold) print('INFO', 'runner', `waits for a host with ${configDir} to answer`)
      await sleep(lookMs, undefined, { signal }).catch(() => {})
    }
  }

  try {
    await waitForHost()
    let [stamp, before] = ['', '']
    while (!signal.aborted) {
      try {
        const now = await stampOfAll(
          options,
          [...running.values()].map(({ unit }) => unit),
        )
        // A file that is still being written changes again; at the start nobody waits for that.
        const isSettled = now === before || stamp === ''
        if (now !== stamp && isSettled) {
          await follow()
          stamp = now
        }
        before = now
      } catch (error) {
        const trouble = `it cannot see what there is to run: ${(error as Error).message}`
        if (!told.has(trouble)) say('ERROR', 'runner', trouble)
        told.add(trouble)
      }
      await sleep(lookMs, undefined, { signal }).catch(() => {})
    }
  } finally {
    await Promise.all([...running.values()].map(({ life }) => life.stop()))
    await syncUnitTokens(configDir, []).catch(() => {})
    await batches.close(500)
    await states.close().catch(() => {})
    host.close()
    await rm(socketsDir, { recursive: true, force: true })
    release()
  }
}
