// One unit's life: plugins start again after a failure, ever later; scripts run once; who has returned is complete.
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffOptions, createBackoff } from './backoff.ts'
import type { UnitProcess } from './launch.ts'
import { createGate, createLineReader, type Level, parseSaid, plainLine } from './lines.ts'
import type { UnitRecord } from './schema.ts'

type Standing = Pick<UnitRecord, 'state' | 'why' | 'restarts'>

export interface SuperviseOptions {
  readonly id: string
  start(): Promise<UnitProcess>
  say(level: Level, text: string): void
  /** Told whenever it stands otherwise than before. */
  onChange(): void
  readonly backoff: BackoffOptions
  /** How long it may take to end once it was asked to. */
  readonly graceMs: number
  readonly linesPerSecond?: number
}
export interface Supervised {
  readonly standing: Standing
  /** Asks it to end, kills it after the grace; resolves when nothing of it is left. */
  stop(): Promise<void>
}

const nowMs = (): number => performance.now()

export function supervise({
  id,
  start,
  say,
  onChange,
  backoff,
  graceMs,
  linesPerSecond = 200,
}: SuperviseOptions): Supervised {
  const stopping = new AbortController()
  const waitAfter = createBackoff(backoff)
  let standing: Standing = { state: 'starting', restarts: 0 }
  const stand = (state: Standing['state'], why?: string): void => {
    const restarts = standing.restarts + (state === 'restarting' ? 1 : 0)
    standing = { state, restarts, ...(why !== undefined && { why }) }
    onChange()
  }
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
      if ('plugin' in said) stand('running')
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

  /** Runs it once; resolves to the reason why it has failed, if it has. */
  const runOnce = async (): Promise<string | undefined> => {
    const unit = await start()
    running = unit
    listen(unit)
    if (stopping.signal.aborted) askToEnd(unit)
    const { code, signal } = await unit.ended
    running = undefined
    gate.settle()
    if (stopping.signal.aborted || code === 0) return undefined
    return `has failed with ${signal ?? `exit code ${code}`}`
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
      stand('starting')
      const why = await runOnce().catch((error: Error) => `cannot be started: ${error.message}`)
      if (stopping.signal.aborted) break
      if (why) say('ERROR', `${id} ${why}`)
      else say('INFO', `${id} is complete`)
      if (!why || !isPlugin) return stand(why ? 'failed' : 'completed', why)
      const waitMs = waitAfter(nowMs() - sinceMs)
      stand('restarting', why)
      say('INFO', `${id} starts again in ${waitMs} ms`)
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
    stand('stopped')
  }
  const ended = life()
  return {
    get standing() {
      return standing
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
