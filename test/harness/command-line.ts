// The product's command line within a test: what a person types, and what is written back.
import { Writable } from 'node:stream'
import { run } from '../../kernel/cli.ts'

/** Runs one command against the host of this config folder. */
export async function type(
  configDir: string,
  ...argv: string[]
): Promise<{ code: number; out: string; err: string }> {
  const texts = { out: '', err: '' }
  const into = (name: 'out' | 'err') =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[name] += chunk
        done()
      },
    })
  const env = { SVC_CONFIG_DIR: configDir }
  const around = { out: into('out'), err: into('err'), env, signal: new AbortController().signal }
  return { code: await run(argv, around), ...texts }
}
