// A registry of packages on loopback for tests: the real thing, with a folder of its own, and npm set up to use it.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort, run, until } from './host.ts'

export interface Registry {
  readonly url: string
  /** Where the packed packages lie, by package. */
  readonly storage: string
  /** What makes npm ask this registry, as its own configuration. */
  readonly env: Readonly<Record<string, string>>
  /** Publishes a folder as an author does. */
  publish(folder: string): Promise<void>
  stop(): Promise<void>
}

const bin = fileURLToPath(new URL('../../node_modules/verdaccio/bin/verdaccio', import.meta.url))

/** Starts an empty registry; `scope` is looked up there, and nothing else is. */
export async function startRegistry(scope: string): Promise<Registry> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-registry-'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}/`
  const storage = join(folder, 'storage')
  mkdirSync(storage)
  const rules = { access: '$all', publish: '$all', unpublish: '$all' }
  const auth = { htpasswd: { file: join(folder, 'htpasswd') } }
  const log = { type: 'stdout', format: 'json', level: 'error' }
  const config = { storage, auth, uplinks: {}, packages: { '**': rules }, web: { enable: false }, log }
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
  // Any token makes npm willing; the registry takes everybody.
  const npmrc = [`${scope}:registry=${url}`, `//127.0.0.1:${port}/:_authToken=anybody`, 'fetch-retries=0']
  writeFileSync(join(folder, 'npmrc'), `${npmrc.join('\n')}\n`)
  const env = { npm_config_userconfig: join(folder, 'npmrc'), npm_config_cache: join(folder, 'cache') }

  const child = spawn(
    process.execPath,
    [bin, '--config', join(folder, 'config.yaml'), '--listen', `127.0.0.1:${port}`],
    {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (text += chunk))
  const ended = new Promise(done => child.once('exit', done))
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await until(
      'the registry to answer',
      () => {
        if (child.exitCode !== null) throw new Error('the registry ended at once')
        return fetch(`${url}-/ping`).then(
          ({ ok }) => ok,
          () => false,
        )
      },
      30_000,
    )
  } catch (error) {
    await stop()
    throw new Error(`${(error as Error).message}\n${text}`)
  }
  return {
    url,
    storage,
    env,
    stop,
    async publish(from) {
      const published = await run('npm', ['publish', '--ignore-scripts', '--access', 'public'], {
        cwd: from,
        env,
      })
      if (published.code !== 0) throw new Error(`npm publish: ${published.err}`)
    },
  }
}
