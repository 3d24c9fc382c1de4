// The runner as the host keeps it: started while there is something to run, started again after a failure, and the token
// that it speaks with.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readLineValue } from 'svc-host/client'
import {
  type DocumentFile,
  type Log,
  type ManagedProcess,
  type ProcessSpec,
  unprivilegedAccount,
} from 'svc-host/sdk'
import type { z } from 'zod'
import { unitName } from './api.ts'
import { type BackoffOptions, createBackoff, usualBackoff } from './backoff.ts'
import { runnerOf } from './holder.ts'
import type { RunnerChoice, RunnerState } from './schema.ts'
import { readUnitStates } from './unit-states.ts'
import { dropUnitTokens, replace } from './unit-tokens.ts'
import { findUnits } from './units.ts'

/** How often it looks whether something has come to run. */
const lookMs = 2000
const soonMs = 100
/** The runner ends its units within 3 s, and itself. */
const graceMs = 4000

export interface HostedOptions {
  readonly configDir: string
  readonly choice: DocumentFile<z.output<typeof RunnerChoice>>
  /** A program that takes the place of our own runner. */
  readonly program: string
  /** True: nothing is run. */
  readonly isSafe: boolean
  readonly log: Log
  start(spec: ProcessSpec): Promise<ManagedProcess>
  onChange(state: RunnerState): void
  readonly backoff?: BackoffOptions
}
export interface HostedRunner {
  state(): Promise<RunnerState>
  setEnabled(enabled: boolean): Promise<RunnerState>
  /** Looks whether something has to be done, and does it. */
  look(): Promise<void>
  /** Looks by itself from now on; gives the way to end that, and the runner with it. */
  begin(): () => Promise<void>
}

const acceptable = (token: string | undefined): boolean =>
  token !== undefined && /^[\x21-\x7e]{16,256}$/.test(token)

/** `<config>/plugin-token` is there while there is a runner to use it. */
export async function keepToken(configDir: string, isInstalled: boolean, given?: string): Promise<void> {
  const path = join(configDir, 'plugin-token')
  if (!isInstalled) return rm(path, { force: true })
  const stored = readLineValue(await readFile(path, 'utf8').catch(() => ''))
  const wanted = acceptable(given) ? given : acceptable(stored) ? stored : randomBytes(32).toString('hex')
  if (wanted !== stored) await replace(path, `SVC_PLUGIN_TOKEN=${wanted}\n`)
}

/** What starts the command line of this very installation. */
function ownRunner(): readonly [string, ...string[]] {
  const isSource = import.meta.url.endsWith('.ts')
  const root = dirname(fileURLToPath(import.meta.resolve('svc-host/package.json')))
  const main = join(root, isSource ? 'kernel/main.ts' : 'dist/kernel/main.js')
  const conditions = isSource ? ['--conditions=svc-source'] : []
  return [process.execPath, ...conditions, '--disable-warning=ExperimentalWarning', main, 'runner']
}

export function createHostedRunner(options: HostedOptions): HostedRunner {
  const { configDir, choice, program, isSafe, log, start, onChange, backoff = usualBackoff } = options
  const waitAfter = createBackoff(backoff)
  let child: ManagedProcess | undefined
  let notBeforeMs = 0
  let detail = isSafe ? 'the host was started with --safe, which runs none' : undefined
  let lastTold = ''
  let isOver = false

  const hasUnits = async (): Promise<boolean> => {
    const places = {
      configDir,
      scriptsDir: join(configDir, 'scripts'),
      pluginsDir: join(configDir, 'plugins'),
    }
    if (!existsSync(places.scriptsDir) && !existsSync(join(places.pluginsDir, 'package.json'))) return false
    const { units, refusals } = await findUnits(places)
    // What is refused is for the runner to tell of.
    return units.length + refusals.length > 0
  }
  const stateWith = async (isInstalled: boolean): Promise<RunnerState> => {
    const running = runnerOf(configDir) !== undefined
    return {
      installed: isInstalled,
      enabled: choice.value.enabled ?? true,
      running,
      unit: unitName,
      principal: process.getuid?.() === 0 ? unprivilegedAccount : userInfo().username,
      ...(!running && detail !== undefined && { detail }),
      units: running ? await readUnitStates(configDir) : [],
    }
  }
  const isInstalled = async (): Promise<boolean> => choice.value.enabled === true || (await hasUnits())
  const tell = (state: RunnerState): void => {
    const text = JSON.stringify([state.enabled, state.running])
    if (lastTold !== '' && text !== lastTold) onChange(state)
    lastTold = text
  }

  /** A runner that was killed could not take back the tokens of its units. */
  const dropTokens = async (): Promise<void> => {
    if (runnerOf(configDir) === undefined) await dropUnitTokens(configDir).catch(() => {})
  }

  const open = async (): Promise<void> => {
    const sinceMs = performance.now()
    const [command, ...args] = program ? [program, 'runner'] : ownRunner()
    const started = await start({
      command: command!,
      args,
      env: {
        SVC_CONFIG_DIR: configDir,
        HOME: userInfo().homedir,
        ...(process.env['XDG_RUNTIME_DIR'] && { XDG_RUNTIME_DIR: process.env['XDG_RUNTIME_DIR'] }),
      },
      output: 'pipe',
      graceMs,
    })
    child = started
    // Whoever follows the events is told when it has come up, or has not.
    const soon = setInterval(() => {
      if (child === started && runnerOf(configDir) === undefined) return
      clearInterval(soon)
      if (!isOver) again()
    }, soonMs)
    soon.unref()
    let lastWords = ''
    started.stdin?.end()
    // Its lines reach the log by themselves.
    started.stdout?.resume()
    started.stderr?.setEncoding('utf8').on('data', text => {
      lastWords = (lastWords + text).slice(-2000)
    })
    const saidAll = started.stderr ? finished(started.stderr).catch(() => {}) : undefined
    void started.exited.then(async ({ code, signal }) => {
      if (child === started) child = undefined
      void dropTokens()
      const waitMs = waitAfter(performance.now() - sinceMs)
      notBeforeMs = performance.now() + waitMs
      // What it has started may hold its output open.
      await Promise.race([saidAll, sleep(500)])
      if (isOver) return
      const last = lastWords.trim().split('\n').at(-1) ?? ''
      if (code === 0) return
      detail = `it has ended with ${signal ?? `exit code ${code}`}${last && `: ${last}`}`
      log.warn(`the plugin runner: ${detail}; it starts again in ${waitMs} ms`)
    })
  }

  const act = async (): Promise<void> => {
    const installed = await isInstalled()
    await keepToken(configDir, installed)
    const isWanted = !isSafe && installed && (choice.value.enabled ?? true) && (await hasUnits())
    if (!isWanted && child) await child.stop()
    // One that runs as a service of its own does this host's work as well.
    if (
      isWanted &&
      !child &&
      !isOver &&
      runnerOf(configDir) === undefined &&
      performance.now() >= notBeforeMs
    )
      await open().catch(error => {
        notBeforeMs = performance.now() + waitAfter(0)
        detail = (error as Error).message
        log.warn('the plugin runner cannot be started', { err: error })
      })
    tell(await stateWith(installed))
  }
  let turn = Promise.resolve()
  const look = (): Promise<void> => {
    turn = turn.then(act, act)
    return turn
  }
  const again = (): void => void look().catch(error => log.warn('the plugin runner', { err: error }))

  return {
    look,
    state: async () => stateWith(await isInstalled()),
    async setEnabled(enabled) {
      await choice.write({ enabled })
      notBeforeMs = 0
      await look()
      return stateWith(await isInstalled())
    },
    begin() {
      const timer = setInterval(again, lookMs)
      timer.unref()
      turn = dropTokens()
      again()
      return async () => {
        isOver = true
        clearInterval(timer)
        await turn.catch(() => {})
        await child?.stop()
      }
    },
  }
}
