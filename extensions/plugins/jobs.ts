// Package operations as jobs: one at a time, each with its phases and its log; the newest twenty are kept.
import { randomUUID } from 'node:crypto'
import { HttpError } from 'svc-host/sdk'
import { AsksForMore } from './consent.ts'
import type { Job } from './schema.ts'

const keptJobs = 20

/** What an operation says while it goes on. */
export interface Progress {
  phase(phase: Job['phase']): void
  line(text: string): void
}

export interface Jobs {
  /** Oldest first. */
  list(): readonly Job[]
  get(id: string): Job | undefined
  isBusy(): boolean
  /** Begins an operation and returns its job at once; throws 409 while there is another. */
  begin(kind: Job['kind'], target: string, work: (say: Progress) => Promise<void>): Job
  /** Resolves when none is under way. */
  settled(): Promise<void>
}

export interface JobsOptions {
  /** Unix seconds. */
  readonly now: () => number
  readonly onChange: (job: Job) => void
}

export function createJobs({ now, onChange }: JobsOptions): Jobs {
  let jobs: Job[] = []
  let current: Promise<void> | undefined
  return {
    list: () => jobs,
    get: id => jobs.find(job => job.id === id),
    isBusy: () => current !== undefined,
    settled: () => current ?? Promise.resolve(),
    begin(kind, target, work) {
      if (current) throw new HttpError(409, 'another package operation is under way')
      const job: Job = {
        id: randomUUID(),
        kind,
        target,
        state: 'running',
        phase: 'waiting',
        log: [],
        started_at: now(),
      }
      jobs = [...jobs, job].slice(-keptJobs)
      const say: Progress = {
        phase(phase) {
          job.phase = phase
          onChange(job)
        },
        line: text => void job.log.push(text),
      }
      const end = (state: Job['state'], error?: unknown): void => {
        Object.assign(job, { state, finished_at: now() })
        if (error === undefined) job.phase = 'done'
        else job.error = error instanceof Error ? error.message : String(error)
        if (error instanceof AsksForMore) Object.assign(job, { error_code: 'permissions', asks: error.asks })
        current = undefined
        onChange(job)
      }
      onChange(job)
      current = work(say).then(
        () => end('done'),
        error => end('failed', error),
      )
      return job
    },
  }
}
