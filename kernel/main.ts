#!/usr/bin/env node
// The entry point of the `svc-host` command.
import process from 'node:process'
import { run } from './cli.ts'

const ended = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => {
    // A second one is for a stop that hangs.
    if (ended.signal.aborted) process.exit(1)
    ended.abort()
  })
}
// A reader that leaves (`| head`) is no error.
process.stdout.on('error', error => process.exit((error as NodeJS.ErrnoException).code === 'EPIPE' ? 0 : 1))

const code = await run(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  env: process.env,
  signal: ended.signal,
})
process.exit(code)
