// The runner's own way to the host: whether one answers, and its lines into the host's log.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ApiClient, ApiError, connect, readLineValue } from 'svc-host/client'
import type { Entry } from './lines.ts'

const answerMs = 2000

export interface HostLink {
  /** Whether a host answers; what it answers does not matter. */
  isThere(): Promise<boolean>
  /** Adds lines to the log of the host; rejects when it has not taken them. */
  send(entries: readonly Entry[], signal: AbortSignal): Promise<void>
  close(): void
}

export function createHostLink(configDir: string): HostLink {
  let open: ApiClient | undefined
  const close = (): void => {
    open?.close()
    open = undefined
  }
  /** Anew after each failure: port, certificate and token may be others by then. */
  const request = async (method: string, path: string, body: unknown, signal: AbortSignal): Promise<void> => {
    try {
      const token = readLineValue(await readFile(join(configDir, 'plugin-token'), 'utf8').catch(() => ''))
      open ??= await connect({ configDir, env: {}, ...(token !== undefined && { token }) })
      await open.request(method, path, body, { signal })
    } catch (error) {
      close()
      throw error
    }
  }
  return {
    close,
    send: (entries, signal) => request('POST', '/plugins/logs', { entries }, signal),
    isThere: () =>
      request('GET', '/health', undefined, AbortSignal.timeout(answerMs)).then(
        () => true,
        error => error instanceof ApiError && error.status !== undefined,
      ),
  }
}
