// The admin token and the address file, as they lie in the config folder.
import { randomBytes } from 'node:crypto'
import { chmod, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readLineValue } from 'svc-host/client'
import { keepAside, readIfThere, writeDurably } from './documents.ts'

const ENDPOINT = 'mgmt-endpoint'
const TOKEN = 'mgmt-token'

/** A token that somebody chose must not be guessable, and must fit into a header. */
const acceptable = (token: string): boolean => /^[\x21-\x7e]{16,256}$/.test(token)

/**
 * The admin token: from the environment (saved, and taken out of `env` so that no child inherits it), else from its
 * file, else made.
 */
export async function loadAdminToken(
  configDir: string,
  env: NodeJS.ProcessEnv,
  warn: (message: string) => void,
): Promise<string> {
  const path = join(configDir, TOKEN)
  const given = env['SVC_MGMT_TOKEN']
  delete env['SVC_MGMT_TOKEN']
  if (given && !acceptable(given))
    throw new Error('SVC_MGMT_TOKEN needs 16 to 256 visible ASCII characters; leave it out to have one made')
  const text = await readIfThere(path)
  const stored = text === undefined ? undefined : readLineValue(text)
  if (text !== undefined && ((await stat(path)).mode & 0o077) !== 0) {
    await chmod(path, 0o600)
    warn(`${path} was readable by others and is now owner-only; delete it and restart if somebody read it`)
  }
  if (stored && acceptable(stored) && (!given || given === stored)) return stored
  if (text !== undefined && !given)
    warn(`${path} holds no token; kept as ${await keepAside(path)}, a new one is made`)
  const token = given || randomBytes(32).toString('hex')
  await writeDurably(path, `SVC_MGMT_TOKEN=${token}\n`)
  return token
}

/** Tells every local account where the API is; written at each start. `host` is the address it was told to bind. */
export function writeEndpoint(configDir: string, port: number, host = '127.0.0.1'): Promise<void> {
  const local = host === '::1' ? '[::1]' : host.startsWith('127.') ? host : '127.0.0.1'
  return writeDurably(join(configDir, ENDPOINT), `SVC_MGMT_URL=https://${local}:${port}\n`, 0o644)
}

/** What a program on this machine needs to call the host; undefined: none ever ran with this config folder. */
export async function readAccess(
  configDir: string,
): Promise<{ url: string; token: string; certificatePem: string } | undefined> {
  const [endpoint, token, certificatePem] = await Promise.all(
    [ENDPOINT, TOKEN, 'native-cert.pem'].map(name => readIfThere(join(configDir, name))),
  )
  const url = endpoint && readLineValue(endpoint)
  const secret = token && readLineValue(token)
  return url && secret && certificatePem && URL.canParse(url)
    ? { url, token: secret, certificatePem }
    : undefined
}
