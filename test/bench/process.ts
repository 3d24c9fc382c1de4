// Child processes of the benchmarks: started until they say that they are ready, ended for certain.
import { type ChildProcess, spawn } from 'node:child_process'

const ended = (child: ChildProcess) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise<void>(resolve => child.once('exit', () => resolve()))

export async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  child.kill(signal)
  const patience = setTimeout(() => child.kill('SIGKILL'), 5000)
  await ended(child)
  clearTimeout(patience)
}

/** A program whose first words on stdout say that it has begun; `lines` are all that it has said so far. */
export async function startReady(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<ChildProcess & { lines(): string[] }> {
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', chunk => {
      text += chunk
      resolve()
    })
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`${program} ended with ${code}`)))
  })
  return Object.assign(child, { lines: () => text.split('\n') })
}
