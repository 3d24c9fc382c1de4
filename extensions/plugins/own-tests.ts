// `svc-host plugins test`: an author's tests on the Node that the host brings, since the machine's own may be older.
import { spawn } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { exitCode, UsageError } from 'svc-host/api/ctl'
import type { CommandContext } from 'svc-host/sdk'

/** Runs every `*.test.js` of the folder; what they print goes where the command prints, or aside. */
export async function runTests({ out, err, signal }: CommandContext, path: string, isAside: boolean) {
  const cwd = resolve(path)
  const names = await readdir(cwd).catch(error => {
    throw new UsageError(`${path} cannot be read: ${error.code ?? error.message}`)
  })
  const files = names.filter(name => /\.test\.m?js$/.test(name)).sort()
  if (files.length === 0) {
    const remedy = names.some(name => name.endsWith('.test.ts')) ? 'run npm run build first' : 'write one'
    throw new UsageError(`${cwd} has no *.test.js; ${remedy}`)
  }
  // A run of tests within another's would only report to that one.
  const { NODE_TEST_CONTEXT, ...inherited } = process.env
  const hasColour = (out as Partial<NodeJS.WriteStream>).isTTY === true && !inherited['NO_COLOR']
  const env = hasColour ? { ...inherited, FORCE_COLOR: '1' } : inherited
  const args = [...process.execArgv, '--test', ...files]
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const stop = (): unknown => child.kill('SIGTERM')
  signal.addEventListener('abort', stop)
  child.stdout.pipe(isAside ? err : out, { end: false })
  child.stderr.pipe(err, { end: false })
  try {
    const code = await new Promise<number>((done, failed) => {
      child.on('error', failed)
      child.on('close', status => done(status ?? 1))
    })
    return {
      data: { files, passed: code === 0 },
      text: code === 0 ? 'every test has passed' : 'not every test has passed',
      code: code === 0 ? exitCode.done : exitCode.refused,
    }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
