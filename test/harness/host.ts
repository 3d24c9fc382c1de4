// Runs the real host and the real viewer as child processes, each test with folders and ports of its own.
import { type ChildProcess, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until as untilSoon } from 'svc-host/testing'

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
export const nodeFlags = ['--conditions=svc-source', '--disable-warning=ExperimentalWarning']

/** The environment of a fresh login: of the product's own settings only the choice of a sanitized engine comes in. */
export function cleanEnvironment(extra: Record<string, string>): Record<string, string> {
  const isOurs = (key: string) => key.startsWith('SVC_') && key !== 'SVC_ENGINE'
  const kept = Object.entries(process.env).filter(([key]) => !isOurs(key) && key !== 'DISPLAY')
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...extra }
}

/** What a sanitized engine needs in the process that loads it, and in no other. */
const preload = (): Record<string, string> =>
  process.env['SVC_ENGINE_PRELOAD'] ? { LD_PRELOAD: process.env['SVC_ENGINE_PRELOAD'] } : {}

/** A port that was free for TCP and UDP a moment ago. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const server = createServer()
    const port = await new Promise<number>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '::', () => resolve((server.address() as { port: number }).port))
    })
    const free = await new Promise<boolean>(resolve => {
      const socket = createSocket('udp6')
      socket.once('error', () => resolve(false))
      socket.bind(port, () => socket.close(() => resolve(true)))
    })
    await new Promise(resolve => server.close(resolve))
    if (free) return port
  }
  throw new Error('no port is free for both TCP and UDP')
}

/** As the testing library's, for what takes a whole host, X servers and encoders. */
export const until: typeof untilSoon = (what, check, limitMs = 15_000) => untilSoon(what, check, limitMs)

export interface HostProcess {
  readonly child: ChildProcess
  readonly pid: number
  readonly configDir: string
  readonly mgmtPort: number
  readonly nativePort: number
  /** Everything printed so far. */
  output(): string
  /** Calls the API with the admin token; resolves to status and parsed body. */
  api<T = any>(method: string, path: string, body?: unknown): Promise<{ status: number; body: T }>
  /** Runs `svc-host <args>` against this host. */
  cli(...args: string[]): Promise<Finished>
  /** Arms the PIN window and gives the PIN. */
  arm(): Promise<string>
  /** Asks it to stop, waits, and resolves to the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface Finished {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** Runs a program to its end. */
export function run(
  command: string,
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string } = {},
): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: cleanEnvironment(options.env ?? {}),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    let err = ''
    child.stdout.on('data', chunk => (out += chunk))
    child.stderr.on('data', chunk => (err += chunk))
    child.once('error', reject)
    child.once('close', code => resolve({ code, out, err }))
  })
}

export interface ServeOptions {
  readonly env?: Record<string, string>
  readonly args?: readonly string[]
  /** An existing config folder, kept at the end; default a fresh one. */
  readonly configDir?: string
  readonly mgmtPort?: number
  readonly nativePort?: number
  /** How long it may take until it answers; default 30 s. */
  readonly withinMs?: number
}

/** Starts `svc-host serve` and waits until it answers. */
export async function serve(options: ServeOptions = {}): Promise<HostProcess> {
  const configDir = options.configDir ?? mkdtempSync(join(tmpdir(), 'svc-test-'))
  const mgmtPort = options.mgmtPort ?? (await freePort())
  const nativePort = options.nativePort ?? (await freePort())
  const child = spawn(
    process.execPath,
    [
      ...nodeFlags,
      join(root, 'kernel/main.ts'),
      'serve',
      '--mgmt-bind',
      `127.0.0.1:${mgmtPort}`,
      '--native-port',
      String(nativePort),
      ...(options.args ?? []),
    ],
    {
      cwd: root,
      // The network is not told of hosts that are there for a test.
      env: cleanEnvironment({ SVC_MDNS: '0', ...preload(), SVC_CONFIG_DIR: configDir, ...options.env }),
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let text = ''
  child.stdout.on('data', chunk => (text += chunk))
  child.stderr.on('data', chunk => (text += chunk))
  const ended = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  let gone = false
  void ended.then(() => (gone = true))

  const api: HostProcess['api'] = (method, path, body) =>
    new Promise((resolve, reject) => {
      const token = readFileSync(join(configDir, 'mgmt-token'), 'utf8').trim().split('=').at(-1)
      const payload = body === undefined ? undefined : JSON.stringify(body)
      const sent = request(
        {
          host: '127.0.0.1',
          port: mgmtPort,
          method,
          path: path.startsWith('/api') ? path : `/api/v1${path}`,
          rejectUnauthorized: false,
          agent: false,
          headers: {
            authorization: `Bearer ${token}`,
            ...(payload
              ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }
              : {}),
          },
        },
        answer => {
          let got = ''
          answer.setEncoding('utf8')
          answer.on('data', chunk => (got += chunk))
          answer.on('end', () =>
            resolve({ status: answer.statusCode ?? 0, body: got ? JSON.parse(got) : undefined }),
          )
        },
      )
      sent.on('error', reject)
      sent.end(payload)
    })

  const host: HostProcess = {
    child,
    pid: child.pid as number,
    configDir,
    mgmtPort,
    nativePort,
    output: () => text,
    api,
    cli: (...args) =>
      run(process.execPath, [...nodeFlags, join(root, 'kernel/main.ts'), ...args], {
        env: { SVC_CONFIG_DIR: configDir },
      }),
    async arm() {
      const { status, body } = await api('POST', '/native/pair/arm')
      if (status !== 200) throw new Error(`arming answered ${status}: ${JSON.stringify(body)}`)
      return body.pin
    },
    async stop(signal = 'SIGTERM') {
      if (!gone) child.kill(signal)
      const code = await ended
      if (!options.configDir) rmSync(configDir, { recursive: true, force: true })
      return code
    },
  }
  try {
    await until(
      'the host to serve',
      async () => {
        if (gone) throw new Error(`the host ended at once:\n${text}`)
        if (!existsSync(join(configDir, 'mgmt-endpoint'))) return false
        return api('GET', '/health').then(
          answer => answer.status === 200,
          () => false,
        )
      },
      options.withinMs ?? 30_000,
    )
  } catch (error) {
    await host.stop('SIGKILL')
    throw new Error(`${error instanceof Error ? error.message : error}\n${text}`)
  }
  return host
}

/** Runs the example viewer to its end. */
export const viewer = (identity: string, ...args: string[]): Promise<Finished> =>
  run(process.execPath, [
    ...nodeFlags,
    join(root, 'examples/viewer/main.ts'),
    ...args,
    '--identity',
    identity,
  ])

/** Starts the example viewer and leaves it running. */
export function startViewer(identity: string, ...args: string[]): ChildProcess & { text(): string } {
  const child = spawn(
    process.execPath,
    [...nodeFlags, join(root, 'examples/viewer/main.ts'), ...args, '--identity', identity],
    { cwd: root, env: cleanEnvironment({}), stdio: ['pipe', 'pipe', 'pipe'] },
  )
  let text = ''
  child.stdout.on('data', chunk => (text += chunk))
  child.stderr.on('data', chunk => (text += chunk))
  return Object.assign(child, { text: () => text })
}

/** SHA-256 of the certificate that a PEM file holds. */
export const fingerprintOf = (pem: string): string =>
  new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()
