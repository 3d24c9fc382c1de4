// How to reach a host when nothing, or not everything, is said: options, environment, config folder, in that order.
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { ApiError } from './errors.ts'
import type { Pin } from './pin.ts'

export interface ConnectOptions {
  /** Base URL; otherwise `SVC_MGMT_URL`, `<config>/mgmt-endpoint`, `https://127.0.0.1:47990`. */
  readonly url?: string
  /**
   * Bearer; otherwise `SVC_MGMT_TOKEN`, `SVC_PLUGIN_TOKEN`, `<config>/plugin-token`, none. The operator's own token in
   * `<config>/mgmt-token` is never read: whoever means to use it passes it.
   */
  readonly token?: string
  /** What the host must show; otherwise `SVC_MGMT_CA` (a path), `<config>/native-cert.pem`, `<config>/cert.pem`. */
  readonly pin?: Pin
  /** The config folder; otherwise `SVC_CONFIG_DIR`, `~/.config/svc`. */
  readonly configDir?: string
  /** Default `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

/** First value in `KEY=value` lines; blank lines and `#` comments are skipped, a bare value is taken as it is. */
export function readLineValue(text: string): string | undefined {
  const line = text
    .split(/\r?\n/)
    .map(each => each.trim())
    .find(each => each !== '' && !each.startsWith('#'))
  const value = line?.replace(/^[A-Za-z_]\w*=/, '').trim()
  return value && /^[\x21-\x7e]+$/.test(value) ? value : undefined
}

/** A file that is not there is no error; one that cannot be read is. */
async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw unreadable(path, error)
  }
}

const unreadable = (path: string, cause: unknown): ApiError =>
  new ApiError('unconfigured', `${path} cannot be read: ${(cause as Error).message}`, { cause })

async function findPin(configDir: string, path: string | undefined): Promise<Pin> {
  // A path that somebody gave is meant: no other certificate stands in for it.
  if (path) {
    const certificatePem = await readFile(path, 'utf8').catch(error =>
      Promise.reject(unreadable(path, error)),
    )
    return { certificatePem }
  }
  for (const name of ['native-cert.pem', 'cert.pem']) {
    const certificatePem = await readIfThere(join(configDir, name))
    if (certificatePem !== undefined) return { certificatePem }
  }
  throw new ApiError(
    'unconfigured',
    `there is no certificate of a host in ${configDir}; set SVC_MGMT_CA to its path, or pass a pin`,
  )
}

/** What `connect` uses; rejects with `unconfigured` where no certificate is known or a file cannot be read. */
export async function findAccess(
  options: ConnectOptions,
): Promise<Pin & { readonly url: string; readonly token?: string }> {
  const { env = process.env } = options
  const configDir = options.configDir ?? (env['SVC_CONFIG_DIR'] || join(homedir(), '.config', 'svc'))
  const valueIn = async (name: string): Promise<string | undefined> =>
    readLineValue((await readIfThere(join(configDir, name))) ?? '')
  const url =
    options.url || env['SVC_MGMT_URL'] || (await valueIn('mgmt-endpoint')) || 'https://127.0.0.1:47990'
  if (!URL.canParse(url) || new URL(url).protocol !== 'https:')
    throw new ApiError('unconfigured', `"${url}" is no https:// address of a host`)
  const token =
    options.token || env['SVC_MGMT_TOKEN'] || env['SVC_PLUGIN_TOKEN'] || (await valueIn('plugin-token'))
  const pin = options.pin ?? (await findPin(configDir, env['SVC_MGMT_CA']))
  return { ...pin, url, ...(token && { token }) }
}
