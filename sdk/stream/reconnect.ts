// Frames across lost links: connects again and resumes the session instead of beginning a new one.
import { setTimeout as delay } from 'node:timers/promises'
import { type ConnectOptions, connect, type StartOptions } from './connection.ts'
import { StreamError } from './error.ts'
import type { VideoFrame } from './frame-assembler.ts'
import type { SessionEnd, StreamSession } from './session-face.ts'

export interface ReconnectOptions {
  /** `intent` is `stream`; `knock` is for the first session, a lost one is never resumed by asking the operator. */
  readonly connect: Omit<ConnectOptions, 'intent'>
  readonly start: StartOptions
  /** How long to try after a lost link, milliseconds; longer than the host's idle time-out is of no use. 0: never. */
  readonly withinMs: number
  /** Called for the first session and for each resumed one. */
  readonly onSession?: (session: StreamSession) => void
}

/** Failures that may pass by themselves; any other ends the attempts. */
const passing: readonly string[] = ['unreachable', 'timeout', 'lost', 'stopping', 'busy']

const open = async (options: ReconnectOptions, resume?: string): Promise<StreamSession> => {
  const knock = options.connect.knock === true && resume === undefined
  const connection = await connect({ ...options.connect, intent: 'stream', knock })
  return connection.start({ ...options.start, ...(resume && { resume }) })
}

const resumed = async (options: ReconnectOptions, session: string): Promise<StreamSession> => {
  const deadline = performance.now() + options.withinMs
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 2000)) {
    try {
      return await open(options, session)
    } catch (error) {
      const isPassing = error instanceof StreamError && passing.includes(error.code)
      if (!isPassing || performance.now() + waitMs > deadline) throw error
    }
    const { signal } = options.connect
    await delay(waitMs, undefined, signal ? { signal } : {}).catch((error: unknown) => {
      throw new StreamError('aborted', 'the caller aborted the reconnection', { cause: error })
    })
  }
}

/**
 * Gives frames in order until the session ends otherwise than by a lost link; returns that end. Rejects when the
 * first connection fails, or when a lost session could not be resumed in time. Leaving the loop closes the session.
 */
export async function* stream(options: ReconnectOptions): AsyncGenerator<VideoFrame, SessionEnd> {
  let session = await open(options)
  try {
    for (;;) {
      options.onSession?.(session)
      yield* session.frames
      const end = await session.ended
      if (end.code !== 'lost' || options.withinMs === 0) return end
      session = await resumed(options, session.started.session)
    }
  } finally {
    await session.close()
  }
}
