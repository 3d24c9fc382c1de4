// npm as a process that the host keeps: it ends with the extension, and after a crash with the next start.
import { text } from 'node:stream/consumers'
import type { Scope } from 'svc-host/sdk'
import type { RunNpm } from './npm.ts'

export const hostNpm =
  (scope: Scope): RunNpm =>
  async (args, { cwd, env, signal }) => {
    const path = env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'
    const started = await scope.process('npm', {
      command: 'npm',
      args,
      cwd,
      env: { ...env, PATH: path },
      output: 'pipe',
    })
    const stop = (): void => void started.stop()
    signal.addEventListener('abort', stop, { once: true })
    started.stdin?.end()
    const [out, err, { code }] = await Promise.all([
      text(started.stdout!),
      text(started.stderr!),
      started.exited,
    ])
    signal.removeEventListener('abort', stop)
    return { code, out, err }
  }
