// The pinned hosts: which certificate each paired host had, so that a changed one is noticed.
import { randomBytes } from 'node:crypto'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { StreamError } from './error.ts'

/** A host that proved by PIN that it is who the user meant. */
export interface KnownHost {
  /** As connected to when it was paired or last seen: `host:port`, an IPv6 address in brackets. */
  readonly address: string
  /** SHA-256 of its certificate's DER, 64 lowercase hex characters. */
  readonly fingerprint: string
  /** As the host calls itself; for people. */
  readonly name: string
  /** The host's persistent id. */
  readonly id: string
  /** Unix seconds. */
  readonly pairedUnix: number
}

export interface KnownHosts {
  list(): readonly KnownHost[]
  byAddress(address: string): KnownHost | undefined
  byFingerprint(fingerprint: string): KnownHost | undefined
  /** Adds a host, in the place of any of the same address or fingerprint; on disk when it resolves. */
  pin(host: KnownHost): Promise<void>
  /** Removes a host by address or fingerprint; resolves to whether there was one. */
  forget(addressOrFingerprint: string): Promise<boolean>
}

const isHost = (value: unknown): value is KnownHost => {
  if (typeof value !== 'object' || value === null) return false
  const host = value as Record<string, unknown>
  return (
    typeof host['address'] === 'string' &&
    typeof host['fingerprint'] === 'string' &&
    /^[0-9a-f]{64}$/.test(host['fingerprint']) &&
    typeof host['name'] === 'string' &&
    typeof host['id'] === 'string' &&
    typeof host['pairedUnix'] === 'number'
  )
}

/** The text of `hosts.json`; throws a sentence when it is anything else. */
export const parseKnownHosts = (text: string): KnownHost[] => {
  const value: unknown = JSON.parse(text)
  const hosts = (value as { hosts?: unknown } | null)?.hosts
  if (!Array.isArray(hosts)) throw new Error('it has no list of hosts')
  const broken = hosts.findIndex(host => !isHost(host))
  if (broken !== -1) throw new Error(`host ${broken + 1} of the list is not complete`)
  return hosts
}

const write = async (path: string, text: string): Promise<void> => {
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  try {
    const handle = await open(temporary, 'wx', 0o600)
    try {
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
}

/**
 * Opens the list in `path`. A broken file is refused rather than read as empty: forgetting a pin unasked would let
 * a stranger's certificate pass for a host that was never seen.
 */
export const openKnownHosts = async (path: string): Promise<KnownHosts> => {
  const refuse = (during: string, error: unknown): StreamError => {
    const why = error instanceof Error ? error.message : String(error)
    return new StreamError('identity', `cannot ${during} ${path}: ${why}`, { cause: error })
  }
  let hosts: KnownHost[] = []
  try {
    hosts = parseKnownHosts(await readFile(path, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw refuse('read the known hosts in', error)
  }
  const store = async (next: KnownHost[]) => {
    try {
      await write(path, `${JSON.stringify({ version: 1, hosts: next }, null, 2)}\n`)
    } catch (error) {
      throw refuse('write the known hosts to', error)
    }
    hosts = next
  }
  return {
    list: () => hosts,
    byAddress: address => hosts.find(host => host.address === address),
    byFingerprint: fingerprint => hosts.find(host => host.fingerprint === fingerprint),
    pin: host =>
      store([
        ...hosts.filter(old => old.address !== host.address && old.fingerprint !== host.fingerprint),
        host,
      ]),
    forget: async key => {
      const next = hosts.filter(host => host.address !== key && host.fingerprint !== key)
      if (next.length === hosts.length) return false
      await store(next)
      return true
    },
  }
}
