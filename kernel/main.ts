#!/usr/bin/env node
// The entry point of the `svc-host` command.
import { statSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import process from 'node:process'

// A start is mostly compiling. What another user could have put there must not be run.
const told = process.env['XDG_CACHE_HOME'] ?? ''
const cache = join(isAbsolute(told) ? told : join(homedir(), '.cache'), 'svc-host', 'code')
const owner = statSync(cache, { throwIfNoEntry: false })?.uid
if (owner === undefined || owner === process.getuid?.()) enableCompileCache(cache)
const { run } = await import('./cli.ts')

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
