// One unit's life: plugins start again after a failure, ever later; scripts run once; who has returned is complete.
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffOptions, createBackoff } from './backoff.ts'
import type { UnitProcess } from './launch.ts'
import { createGate, createLineReader, type Level, parseSaid, plainLine } from './lines.ts'

export type UnitState = 'starting' | 'running' | 'restarting' | 'completed' | 'failed' | 'stopped'

export interface SuperviseOptions {
  readonly id: string
  start(): Promise<UnitProcess>
  say(level: Level, text: string): void
  readonly backoff: BackoffOptions
  /** How long it may take to end once it was asked to. */
  readonly graceMs: number
  readonly linesPerSecond?: number
}
export interface Supervised {
  readonly state: UnitState
  /** Asks it to end, kills it after the grace; resolves when nothing of it is left. */
  stop(): Promise<void>
}

const nowMs = (): number => performance.now()

export function supervise({
  id,
  start,
  say,
  backoff,
  graceMs,
  linesPerSecond = 200,
}: SuperviseOptions): Supervised {
  const stopping = new AbortController()
  const waitAfter = createBackoff(backoff)
  let state: UnitState = 'starting'
  /** Once it has said what it is, it is taken for that after a failure as well. */
  let isPlugin = false
  let running: UnitProcess | undefined
  const gate = createGate(linesPerSecond, nowMs, count =>
    say('WARN', `${count} more lines within a second were dropped`),
  )
  const tell = (level: Level, text: string): void => {
    const line = plainLine(text)
    if (line && gate.isOpen()) say(level, line)
  }

  const listen = ({ child, channel }: UnitProcess): void => {
    const readSaid = createLineReader(line => {
      const said = parseSaid(line)
      if (!said) return
      if ('level' in said) for (const each of said.msg.split('\n')) tell(said.level, each)
      else isPlugin = said.plugin !== null
      if ('plugin' in said) state = 'running'
    })
    channel.setEncoding('utf8').on('data', readSaid)
    for (const [stream, level] of [
      [child.stdout, 'INFO'],
      [child.stderr, 'WARN'],
    ] as const)
      stream?.setEncoding('utf8').on(
        'data',
        createLineReader(line => tell(level, line)),
      )
  }

  /** Runs it once; true: it has failed. */
  const runOnce = async (): Promise<boolean> => {
    const unit = await start()
    running = unit
    listen(unit)
    if (stopping.signal.aborted) askToEnd(unit)
    const { code, signal } = await unit.ended
    running = undefined
    gate.settle()
    if (stopping.signal.aborted || code === 0) return false
    say('ERROR', `${id} has failed with ${signal ?? `exit code ${code}`}`)
    return true
  }

  const askToEnd = (unit: UnitProcess): void => {
    unit.channel.write('stop\n')
    const limit = setTimeout(() => {
      say('WARN', `${id} has not ended within ${graceMs} ms and is killed`)
      unit.kill()
    }, graceMs)
    void unit.ended.finally(() => clearTimeout(limit)).catch(() => {})
  }

  const life = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const sinceMs = nowMs()
      state = 'starting'
      const hasFailed = await runOnce().catch((error: Error) => {
        say('ERROR', `${id} cannot be started: ${error.message}`)
        return true
      })
      if (stopping.signal.aborted) break
      if (!hasFailed || !isPlugin) {
        state = hasFailed ? 'failed' : 'completed'
        if (!hasFailed) say('INFO', `${id} is complete`)
        return
      }
      state = 'restarting'
      const waitMs = waitAfter(nowMs() - sinceMs)
      say('INFO', `${id} starts again in ${waitMs} ms`)
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
    state = 'stopped'
  }
  const ended = life()
  return {
    get state() {
      return state
    },
    async stop() {
      if (!stopping.signal.aborted) {
        stopping.abort()
        if (running) askToEnd(running)
      }
      await ended
    },
  }
}
